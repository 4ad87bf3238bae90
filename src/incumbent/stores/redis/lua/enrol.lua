-- Let a node stand for `ttl_ms` from now. What it has done and since when it is there is kept as long as it lives.
-- KEYS: candidates gone
-- ARGV: node token ttl_ms strategy metadata
-- Returns: {'enrolled', registered}, {'kept', registered} or {'gone'}

local candidates_key, gone_key = KEYS[1], KEYS[2]
local node, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('ZSCORE', gone_key, token) then
  return {'gone'}
end

local lasts = redis.call('PTTL', candidates_key)
if lasts == -1 then
  lasts = FENCE_TTL -- somebody else's doing (PERSIST, RESTORE); nobody's record may be cut short by healing it
end
lasts = math.max(lasts, ttl)
-- Asked before anything is written: a full server does not refuse what follows, so that nobody drops out of the
-- election for that, and a user without this right leaves no hash that never expires.
redis.call('PEXPIRE', candidates_key, lasts)

local now = now_us()
local old = living(redis.call('HGET', candidates_key, node), now)
local registered, done = string.format('%.0f', now), '0,0,0,0,0'
if old then
  registered, done = old[2], table.concat(old, ',', 3, 7)
else
  -- Only newcomers let the hash grow, so they sweep it.
  local all = redis.call('HGETALL', candidates_key)
  for i = 2, #all, 2 do
    local expires = string.match(all[i], EXPIRES)
    if expires and tonumber(expires) <= now then
      redis.call('HDEL', candidates_key, all[i - 1])
    end
  end
end

local expires = string.format('%.0f', now + 1000 * ttl)
local head = table.concat({expires, registered, done}, ',')
redis.call('HSET', candidates_key, node, '[' .. head .. ',"' .. token .. '","' .. ARGV[4] .. '",' .. ARGV[5] .. ']')
redis.call('PEXPIRE', candidates_key, lasts)
return {old and 'kept' or 'enrolled', registered}
