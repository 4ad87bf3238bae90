-- Let a lease live longer, if it is still mine. Never shortens it.
-- KEYS: fence seat
-- ARGV: token duration_ms
-- Returns: {'held', ttl, asked}, {'taken'} or {'gone'}
-- `asked` is 1 when the holder is to step down.

local seat = redis.call('HMGET', KEYS[2], 'token', 'asked')
if seat[1] ~= ARGV[1] then
  return {seat[1] and 'taken' or 'gone'}
end
local ttl = prolong(KEYS[2], tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], math.max(FENCE_TTL, 2 * ttl))
return {'held', ttl, seat[2] and 1 or 0}
