-- Let a lease live longer, if it is still mine. Never shortens it.
-- KEYS: fence seat
-- ARGV: token duration_ms
-- Returns: {'held', ttl}, {'taken'} or {'gone'}

local owner = redis.call('HGET', KEYS[2], 'token')
if owner ~= ARGV[1] then
  return {owner and 'taken' or 'gone'}
end
local ttl = prolong(KEYS[2], tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], math.max(FENCE_TTL, 2 * ttl))
return {'held', ttl}
