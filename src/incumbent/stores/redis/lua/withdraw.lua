-- Let a node stand no longer, if it was enrolled by this token last, and refuse what this token may yet ask for. Another
-- stand of the same node id goes on. A record with early failures is kept for as long as these count.
-- KEYS: candidates gone
-- ARGV: node token
-- Returns: {'withdrawn'}, {'taken'} or {'gone'}

local candidates_key, gone_key = KEYS[1], KEYS[2]
local node, token = ARGV[1], ARGV[2]

redis.call('PEXPIRE', gone_key, GONE_TTL)
local now = now_us()
local old, answer = living(redis.call('HGET', candidates_key, node), now), 'gone'
if old then
  local others, found, next = others_of(old, token, now)
  local mine = old.token == token
  answer = mine and not next.token and 'withdrawn' or 'taken'
  old.others = others
  if mine and next.token then
    old.token, old.expires, old.ttl, old.contending = next.token, text_of(next.expires), next.ttl, '0'
    old.others = others_of(old, next.token, now)
  elseif mine then
    old.expires, old.contending = '0', '0'
  end
  if answer == 'withdrawn' and not faltering(old, now) then
    redis.call('HDEL', candidates_key, node)
  elseif mine or found then
    redis.call('HSET', candidates_key, node, record_of(old))
  end
end
bury(gone_key, token)
return {answer}
