-- All there is to decide who should lead, at one moment: the time in us, the last fence, who has the seat (as state.lua
-- tells it, or nothing), and each node that was enrolled with its record, as they are: to sort out those that are over
-- would take longer here than the rest. Writes nothing but corrections: of the seat's TTL, and of records.
-- KEYS: candidates fence seat
-- ARGV: correct
-- Returns: {now, fence, {seat, leader, fence, since, ttl, retained}, {node, record, ...}}
-- `correct` (1 or 0): records that live longer than they were enrolled for are corrected. The clock was set back since they
-- were written, and a leader would make way for a dead node.

local leader = {}
local seat = redis.call('HMGET', KEYS[3], unpack(LOOKED_AT))
if seat[1] then
  leader = look(KEYS[3], 0, seat)
end
local fence = string.match(redis.call('GET', KEYS[2]) or '', COUNTER) or '0'
local records, now = redis.call('HGETALL', KEYS[1]), now_us()
if ARGV[1] == '1' then
  local ahead, back = {}, 0
  for i = 2, #records, 2 do
    local expires, ttl = string.match(records[i], LIFE)
    local by = expires and ahead_by(expires, ttl, now) or 0
    if by > 0 then
      ahead[#ahead + 1], back = i, math.max(back, by)
    end
  end
  for _, i in ipairs(ahead) do
    local parts = parts_of(records[i], now, back) -- by the same for all, so that their order stays as it is
    if parts then
      records[i] = record_of(parts)
      keep(KEYS[1], tonumber(parts.ttl))
      redis.call('HSET', KEYS[1], records[i - 1], records[i])
    end
  end
end
return {text_of(now), fence, leader, records}
