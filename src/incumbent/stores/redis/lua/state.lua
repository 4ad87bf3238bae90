-- Who has the seats of an election, how many stand in line, the last fence that was given, and how many seats there are.
-- Writes nothing but corrections of the seats' TTLs.
-- KEYS: fence queue alive seat+
-- ARGV:
-- Returns: {waiting, fence, seats, {seat, leader, fence, since, ttl, retained}, ...}
-- `seats` is the most that a candidate has known of; 0 when that is not known: nobody has led for a day, or the counter is
-- lost. A waiter in line is counted as long as its process is believed to be there. An error names the key that it is about.

local function about(key, reply)
  reply.err = reply.err .. ': ' .. key
  return reply
end

local count, waiting = redis.pcall('GET', KEYS[1]), redis.pcall('ZCARD', KEYS[2])
if type(count) == 'table' then
  return about(KEYS[1], count)
elseif type(waiting) == 'table' then
  return about(KEYS[2], waiting)
end
if waiting > 0 then
  waiting = waiting - line_of(KEYS[1], '', KEYS[2], KEYS[3], math.floor(now_us() / 1000)).deserted()
end
local fence, seats = string.match(count or '', COUNTER)
local answer = {waiting, fence or '0', fence and (tonumber(seats) or 1) or 0}
for i = 4, #KEYS do
  local seat = redis.pcall('HMGET', KEYS[i], unpack(LOOKED_AT))
  if seat.err then
    return about(KEYS[i], seat)
  elseif seat[1] then
    answer[#answer + 1] = look(KEYS[i], i - 4, seat)
  end
end
return answer
