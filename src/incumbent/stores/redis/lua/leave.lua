-- Undo a claim whose fate is unknown: free what it took, leave the line, and stop its request should it arrive late.
-- KEYS: fence gone queue alive tick seat+
-- ARGV: token place database
-- Returns: {'left'}
-- Without a token ('') only the line is left: of a place that is not known any more, the claim may well hold a seat.

local fence_key, gone_key, queue_key = KEYS[1], KEYS[2], KEYS[3]
local token, place = ARGV[1], ARGV[2]

if token ~= '' then
  redis.call('PEXPIRE', gone_key, GONE_TTL)
  restore(KEYS[5], token) -- also when the seat is gone: its lease may have run out before the grant arrived
  for i = 6, #KEYS do
    local seat = redis.call('HMGET', KEYS[i], 'token', 'fence')
    if seat[1] == token then
      redis.call('DEL', KEYS[i])
      publish(fence_key, ARGV[3], 'events', 'released ' .. i - 6 .. ' ' .. (seat[2] or '0'))
    end
  end
  bury(gone_key, token)
end
if redis.call('EXISTS', queue_key) == 1 then
  local line = line_of(fence_key, ARGV[3], queue_key, KEYS[4], math.floor(now_us() / 1000))
  line.without(place, line.free(KEYS, 6))
end
return {'left'}
