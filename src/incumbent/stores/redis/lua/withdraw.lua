-- Let a node stand no longer, if it was enrolled by this token last, and stop what this token may yet ask for.
-- KEYS: candidates gone
-- ARGV: node token
-- Returns: {'withdrawn'}, {'taken'} or {'gone'}

local candidates_key, gone_key = KEYS[1], KEYS[2]
local node, token = ARGV[1], ARGV[2]

redis.call('PEXPIRE', gone_key, GONE_TTL)
local old, answer = living(redis.call('HGET', candidates_key, node), now_us()), 'gone'
if old and old[8] == token then
  redis.call('HDEL', candidates_key, node)
  answer = 'withdrawn'
elseif old then
  answer = 'taken' -- the same node, enrolled by a later process of it
end
bury(gone_key, token)
return {answer}
