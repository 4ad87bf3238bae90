-- All there is to decide who should lead, at one moment: the time in us, the last fence, who has the seat (as state.lua
-- tells it, or nothing), and each node that was enrolled with its record, as they are: to sort out those that are over
-- would take longer here than the rest. Writes nothing, unless the seat's TTL is missing (PERSIST, RESTORE) or longer than
-- its holder relies on: then it is corrected as in the line, or no node would be elected until it ends.
-- KEYS: candidates fence seat
-- ARGV:
-- Returns: {now, fence, {seat, leader, fence, since, ttl, retained}, {node, record, ...}}

local leader = {}
local seat = redis.call('HMGET', KEYS[3], 'token', 'leader', 'fence', 'since', 'longest')
if seat[1] then
  local ttl = redis.call('PTTL', KEYS[3])
  local sound = ttl == 0 and ttl or bound(ttl, 0, seat[5])
  if sound ~= ttl then
    redis.call('PEXPIRE', KEYS[3], sound)
  end
  leader = {0, seat[2] or '', seat[3] or '0', seat[4] or '0', sound, seat[1] == RETAINED and 1 or 0}
end
local fence = redis.call('GET', KEYS[2]) or '0'
local records = redis.call('HGETALL', KEYS[1])
return {string.format('%.0f', now_us()), fence, leader, records}
