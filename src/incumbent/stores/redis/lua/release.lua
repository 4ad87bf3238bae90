-- Give a seat back, if it is still mine: at once, or with its rest cut to a minimum hold and nobody's token on it.
-- KEYS: gone seat
-- ARGV: token keep_ms doubtful
-- Returns: {'released'}, {'taken'} or {'gone'}
-- `doubtful` (1 or 0): a copy of the request that took the seat may yet arrive, and must find it given up.

local gone_key, seat_key = KEYS[1], KEYS[2]
local token, keep = ARGV[1], tonumber(ARGV[2])

local owner, answer = redis.call('HGET', seat_key, 'token'), 'released'
if owner ~= token then
  answer = owner and 'taken' or 'gone'
elseif keep > 0 then
  -- At least 1: in its last millisecond a key has a PTTL of 0, which would delete it here, and HSET would make it
  -- anew, without an end.
  redis.call('PEXPIRE', seat_key, math.max(1, math.min(keep, redis.call('PTTL', seat_key))))
  redis.call('HSET', seat_key, 'token', RETAINED)
else
  redis.call('DEL', seat_key)
end
if ARGV[3] == '1' then
  redis.call('PEXPIRE', gone_key, GONE_TTL)
  bury(gone_key, token)
end
return {answer}
