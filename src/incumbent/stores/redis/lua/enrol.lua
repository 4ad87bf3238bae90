-- Let a node stand for `ttl_ms` from now. What it has done and since when it is there is kept as long as it lives.
-- KEYS: candidates gone
-- ARGV: node token ttl_ms strategy metadata contending
-- Returns: {'enrolled', registered}, {'kept', registered}, {'shared', registered} or {'gone'}
-- `contending` (1 or 0): it waits to lead, or leads. 'shared': another stand has enrolled under the same node id since this
-- one did, and lives.

local candidates_key, gone_key = KEYS[1], KEYS[2]
local node, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('ZSCORE', gone_key, token) then
  return {'gone'}
end

local lasts = keep(candidates_key, ttl)
local now = now_us()
local old = parts_of(redis.call('HGET', candidates_key, node), now)
local new = {
  expires = text_of(now + 1000 * ttl), ttl = text_of(ttl), registered = text_of(now), started = '0', succeeded = '0',
  failed = '0', successes = '0', failures = '0', token = token,
  body = '"' .. ARGV[4] .. '",' .. ARGV[5], contending = ARGV[6], early = '0', early_at = '0', others = '',
}
if old and faltering(old, now) then
  new.early, new.early_at = old.early, old.early_at
end
local answer = 'enrolled'
if old and tonumber(old.expires) > now then
  answer = 'kept'
  for _, name in ipairs({'registered', 'started', 'succeeded', 'failed', 'successes', 'failures'}) do
    new[name] = old[name]
  end
  local found
  new.others, found = others_of(old, token, now)
  if old.token ~= token then
    new.others = new.others .. string.format('%s=%s=%s;', old.token, old.expires, old.ttl)
    if select(2, string.gsub(new.others, ';', '')) > MOST_OTHERS then
      new.others = string.match(new.others, ';(.*)$') -- without the first, which enrolled the longest ago
    end
    if found then
      answer = 'shared'
    end
  end
else
  -- Only newcomers let the hash grow, so they sweep it.
  local all = redis.call('HGETALL', candidates_key)
  for i = 2, #all, 2 do
    local expires = string.match(all[i], LIFE)
    if expires and tonumber(expires) <= now then
      local over = parts_of(all[i], now)
      if not (over and faltering(over, now)) then
        redis.call('HDEL', candidates_key, all[i - 1])
      end
    end
  end
end

redis.call('HSET', candidates_key, node, record_of(new))
redis.call('PEXPIRE', candidates_key, lasts)
return {answer, new.registered}
