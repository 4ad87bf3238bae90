-- Ask who holds a seat to step down: it hears that when it extends its lease.
-- KEYS: seat+
-- ARGV: seat
-- Returns: {'asked', count}
-- `seat` is a number, or '' for all.

local count = 0
for i = 1, #KEYS do
  if ARGV[1] == '' or tonumber(ARGV[1]) == i - 1 then
    local owner, longest = unpack(redis.call('HMGET', KEYS[i], 'token', 'longest'))
    if owner and owner ~= RETAINED then
      -- First, so that a full server does not refuse what follows.
      redis.call('PEXPIRE', KEYS[i], bound(redis.call('PTTL', KEYS[i]), 0, longest))
      redis.call('HSET', KEYS[i], 'asked', '1')
      count = count + 1
    end
  end
end
return {'asked', count}
