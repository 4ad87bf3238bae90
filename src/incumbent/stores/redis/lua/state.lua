-- Who has the seats of an election, how many stand in line, and the last fence that was given. Reads only.
-- KEYS: fence queue alive seat+
-- ARGV:
-- Returns: {waiting, fence, {seat, leader, fence, since, ttl, retained}, ...}
-- A waiter in line is counted as long as its process is believed to be there.

local fence, waiting = redis.call('GET', KEYS[1]), redis.call('ZCARD', KEYS[2])
local now_ms = math.floor(now_us() / 1000)
local names = overdue(KEYS[3], now_ms)
for _, name in ipairs(too_far_off(KEYS[3], now_ms)) do
  names[#names + 1] = name
end
local gone = gone_by(names)
if gone then
  waiting = waiting - #places_of(gone, KEYS[2])
end
local answer = {waiting, fence and string.match(fence, '^%d+$') or '0'}
for i = 4, #KEYS do
  local seat = redis.call('HMGET', KEYS[i], 'token', 'leader', 'fence', 'since')
  if seat[1] then
    answer[#answer + 1] = {
      i - 4, seat[2] or '', seat[3] or '0', seat[4] or '0', redis.call('PTTL', KEYS[i]), seat[1] == RETAINED and 1 or 0,
    }
  end
end
return answer
