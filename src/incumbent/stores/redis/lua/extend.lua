-- Let a lease live longer, if it is still mine. Shortens nothing that its holder may rely on: see `bound`.
-- KEYS: fence seat
-- ARGV: token duration_ms
-- Returns: {'held', ttl, asked}, {'taken'} or {'gone'}
-- `asked` is 1 when the holder is to step down.

local seat = redis.call('HMGET', KEYS[2], 'token', 'asked', 'longest')
if seat[1] ~= ARGV[1] then
  return {seat[1] and 'taken' or 'gone'}
end
local duration = tonumber(ARGV[2])
-- Also when it changes nothing: a WAIT for replicas waits for this write. It comes first, as a full server allows it.
local ttl = bound(redis.call('PTTL', KEYS[2]), duration, seat[3])
redis.call('PEXPIRE', KEYS[2], ttl)
redis.call('PEXPIRE', KEYS[1], math.max(FENCE_TTL, 2 * ttl))
if duration > tonumber(seat[3] or FENCE_TTL) then
  redis.call('HSET', KEYS[2], 'longest', ARGV[2])
end
return {'held', ttl, seat[2] and 1 or 0}
