-- A claim that was given up: should its request arrive after all, it finds this. The caller has used PEXPIRE on
-- the key before: so a full server does not refuse what follows, and a user without that right gets no further.
local function bury(gone, token)
  local now_ms = now_us() / 1000
  redis.call('ZADD', gone, now_ms, token)
  redis.call('PEXPIRE', gone, GONE_TTL)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', now_ms - GONE_TTL)
end

