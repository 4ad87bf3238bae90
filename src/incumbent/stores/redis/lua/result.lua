-- Note that a candidate started some work, or that its work succeeded or failed: once per token, if it still stands. If a
-- term failed soon after its start, 'faltered' is noted as well; 'steadied' if it did not.
-- KEYS: candidates gone
-- ARGV: node token deed
-- Returns: {'counted'} or {'gone'}

local candidates_key, gone_key = KEYS[1], KEYS[2]
local node, token, deed = ARGV[1], ARGV[2], ARGV[3]

if redis.call('ZSCORE', gone_key, token) then
  return {'counted'} -- this is a copy, whose first answer was lost
end
local now = now_us()
local old = living(redis.call('HGET', candidates_key, node), now)
if not old then
  return {'gone'}
end

local at = text_of(now)
if deed == 'started' then
  old.started = at
elseif deed == 'succeeded' then
  old.succeeded, old.successes = at, text_of(old.successes + 1)
elseif deed == 'failed' then
  old.failed, old.failures = at, text_of(old.failures + 1)
elseif deed == 'faltered' then
  old.early, old.early_at = text_of((faltering(old, now) and old.early or 0) + 1), at
elseif deed == 'steadied' then
  old.early, old.early_at = '0', '0'
end
redis.call('PEXPIRE', gone_key, GONE_TTL)
redis.call('HSET', candidates_key, node, record_of(old))
bury(gone_key, token)
return {'counted'}
