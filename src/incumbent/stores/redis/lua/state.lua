-- Who has the seats of an election, how many stand in line, and the last fence that was given. Reads only.
-- KEYS: fence queue seat+
-- ARGV:
-- Returns: {waiting, fence, {seat, leader, fence, since, ttl, retained}, ...}

local fence = redis.call('GET', KEYS[1])
local answer = {redis.call('ZCARD', KEYS[2]), fence and string.match(fence, '^%d+$') or '0'}
for i = 3, #KEYS do
  local seat = redis.call('HMGET', KEYS[i], 'token', 'leader', 'fence', 'since')
  if seat[1] then
    answer[#answer + 1] = {
      i - 3, seat[2] or '', seat[3] or '0', seat[4] or '0', redis.call('PTTL', KEYS[i]), seat[1] == RETAINED and 1 or 0,
    }
  end
end
return answer
