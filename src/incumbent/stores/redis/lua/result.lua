-- Note that a candidate started some work, or that its work succeeded or failed: once per token, if it still stands.
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

local at = string.format('%.0f', now)
if deed == 'started' then
  old[3] = at
elseif deed == 'succeeded' then
  old[4], old[6] = at, string.format('%.0f', old[6] + 1)
elseif deed == 'failed' then
  old[5], old[7] = at, string.format('%.0f', old[7] + 1)
end
redis.call('PEXPIRE', gone_key, GONE_TTL)
local head = table.concat(old, ',', 1, 7)
redis.call('HSET', candidates_key, node, '[' .. head .. ',"' .. old[8] .. '",' .. old[9] .. ']')
bury(gone_key, token)
return {'counted'}
