-- All there is to decide who should lead, at one moment: the time in us, the last fence, who has the seat (as state.lua
-- tells it, or nothing), the nodes whose records are none, and each node that stands with its record. Reads only.
-- KEYS: candidates fence seat
-- ARGV:
-- Returns: {now, fence, {seat, leader, fence, since, ttl, retained}, {node, ...}, {node, record, ...}}

local now = now_us()
local leader = {}
local seat = redis.call('HMGET', KEYS[3], 'token', 'leader', 'fence', 'since')
if seat[1] then
  leader = {
    0, seat[2] or '', seat[3] or '0', seat[4] or '0', redis.call('PTTL', KEYS[3]), seat[1] == RETAINED and 1 or 0,
  }
end

local corrupt, live = {}, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 2, #all, 2 do
  local expires = string.match(all[i], EXPIRES)
  if not expires then
    corrupt[#corrupt + 1] = all[i - 1]
  elseif tonumber(expires) > now then
    live[#live + 1] = all[i - 1]
    live[#live + 1] = all[i]
  end
end
local fence = redis.call('GET', KEYS[2]) or '0'
return {string.format('%.0f', now), fence, leader, corrupt, live}
