-- Let a lease live longer, if it is still mine. Never shortens it.
-- KEYS: fence seat
-- ARGV: token duration_ms
-- Returns: {'held', ttl, asked}, {'taken'} or {'gone'}
-- `asked` is 1 when the holder is to step down.

local seat = redis.call('HMGET', KEYS[2], 'token', 'asked')
if seat[1] ~= ARGV[1] then
  return {seat[1] and 'taken' or 'gone'}
end
-- Also when it changes nothing: who waits for replicas waits for this write. Not 0, which would delete the seat.
local ttl = math.max(tonumber(ARGV[2]), redis.call('PTTL', KEYS[2]), 1)
redis.call('PEXPIRE', KEYS[2], ttl)
redis.call('PEXPIRE', KEYS[1], math.max(FENCE_TTL, 2 * ttl))
return {'held', ttl, seat[2] and 1 or 0}
