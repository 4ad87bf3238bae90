-- All there is to decide who should lead, at one moment: the time in us, the last fence, who has the seat (as state.lua
-- tells it, or nothing), and each node that was enrolled with its record, as they are: to sort out those that are over
-- would take longer here than the rest. Writes nothing, unless the seat has no end (PERSIST, RESTORE), which would keep
-- it taken for ever: then it gets one, as in the line.
-- KEYS: candidates fence seat
-- ARGV:
-- Returns: {now, fence, {seat, leader, fence, since, ttl, retained}, {node, record, ...}}

local leader = {}
local seat = redis.call('HMGET', KEYS[3], 'token', 'leader', 'fence', 'since', 'longest')
if seat[1] then
  local ttl = redis.call('PTTL', KEYS[3])
  if ttl == -1 then
    ttl = tonumber(seat[5] or FENCE_TTL)
    redis.call('PEXPIRE', KEYS[3], ttl)
  end
  leader = {0, seat[2] or '', seat[3] or '0', seat[4] or '0', ttl, seat[1] == RETAINED and 1 or 0}
end
local fence = redis.call('GET', KEYS[2]) or '0'
local records = redis.call('HGETALL', KEYS[1])
return {string.format('%.0f', now_us()), fence, leader, records}
