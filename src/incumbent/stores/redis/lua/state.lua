-- Who has the seats of an election, and how many stand in line. Reads only.
-- KEYS: queue seat+
-- ARGV:
-- Returns: {waiting, {seat, leader, fence, since, ttl, retained}, ...}

local answer = {redis.call('ZCARD', KEYS[1])}
for i = 2, #KEYS do
  local seat = redis.call('HMGET', KEYS[i], 'token', 'leader', 'fence', 'since')
  if seat[1] then
    answer[#answer + 1] = {
      i - 2, seat[2] or '', seat[3] or '0', seat[4] or '0', redis.call('PTTL', KEYS[i]), seat[1] == RETAINED and 1 or 0,
    }
  end
end
return answer
