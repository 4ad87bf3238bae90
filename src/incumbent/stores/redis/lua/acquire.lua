-- Take the lowest free seat of an election, or learn that one is mine already, or who has them.
-- KEYS: fence gone seat+
-- ARGV: token leader lease_ms
-- Returns: {'granted', seat, fence, since, ttl}, {'busy', seat, leader, fence, since, ttl, retained} or {'gone'}

local fence_key, gone_key = KEYS[1], KEYS[2]
local token, leader, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('ZSCORE', gone_key, token) then
  return {'gone'}
end

local free, soonest
for i = 3, #KEYS do
  local owner = redis.call('HGET', KEYS[i], 'token')
  if owner == token then
    local seat = redis.call('HMGET', KEYS[i], 'fence', 'since')
    return {'granted', i - 3, seat[1], seat[2], prolong(KEYS[i], lease)}
  end
  if owner then
    local ttl = redis.call('PTTL', KEYS[i])
    if ttl == -1 then
      -- Somebody else's doing (PERSIST, RESTORE), and taken for ever without this. Long enough for any holder's lease.
      ttl = math.max(FENCE_TTL, lease)
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
    if not soonest or ttl < soonest.ttl then
      soonest = {index = i, ttl = ttl, retained = owner == RETAINED}
    end
  elseif not free then
    free = i
  end
end

if not free then
  local seat = redis.call('HMGET', KEYS[soonest.index], 'leader', 'fence', 'since')
  return {
    'busy', soonest.index - 3, seat[1] or '', seat[2] or '0', seat[3] or '0',
    soonest.ttl, soonest.retained and 1 or 0,
  }
end

-- The counter comes first: on a full server it is this write that is refused, and nothing has changed then.
local now = now_us()
local last = tonumber(redis.call('GET', fence_key) or '0')
if not (last and last < MAX_FENCE) then
  return redis.error_reply('ERR the fence counter of this election is not one of ours')
end
local fence = string.format('%.0f', math.max(last + 1, now))
local since = string.format('%.0f', math.floor(now / 1000))
redis.call('SET', fence_key, fence, 'PX', math.max(FENCE_TTL, 2 * lease))
-- Asked before the seat exists: a user without this right must not be left with a seat that never expires.
redis.call('PEXPIRE', KEYS[free], lease)
redis.call('HSET', KEYS[free], 'token', token, 'leader', leader, 'fence', fence, 'since', since)
redis.call('PEXPIRE', KEYS[free], lease)
return {'granted', free - 3, fence, since, lease}
