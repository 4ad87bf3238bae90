-- Undo a claim whose fate is unknown: free what it took, and stop its request should it arrive late.
-- KEYS: gone seat+
-- ARGV: token
-- Returns: {'left'}

redis.call('PEXPIRE', KEYS[1], GONE_TTL)
for i = 2, #KEYS do
  if redis.call('HGET', KEYS[i], 'token') == ARGV[1] then
    redis.call('DEL', KEYS[i])
  end
end
bury(KEYS[1], ARGV[1])
return {'left'}
