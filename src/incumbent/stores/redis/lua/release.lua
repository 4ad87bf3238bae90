-- Give a seat back, if it is still mine: at once, or with its rest cut to a minimum hold and nobody's token on it.
-- KEYS: fence gone queue alive tick seat+
-- ARGV: token seat keep_ms doubtful database restore
-- Returns: {'released'}, {'taken'} or {'gone'}
-- `doubtful` (1 or 0): a copy of the request that took the seat may yet arrive, and must find it given up.
-- `restore` (1 or 0): the term's run does not count for its period.

local fence_key, gone_key, queue_key, mine_key = KEYS[1], KEYS[2], KEYS[3], KEYS[6 + ARGV[2]]
local token, number, keep = ARGV[1], ARGV[2], tonumber(ARGV[3])

local seat, answer, kept = redis.call('HMGET', mine_key, 'token', 'fence', 'longest'), 'released', false
if seat[1] ~= token then
  answer = seat[1] and 'taken' or 'gone'
else
  if ARGV[6] == '1' then
    restore(KEYS[5], token)
  end
  if keep > 0 then
    kept = retain(mine_key, math.min(keep, bound(redis.call('PTTL', mine_key), 0, seat[3])))
    publish(fence_key, ARGV[5], 'events', 'retained ' .. number .. ' ' .. (seat[2] or '0') .. ' ' .. kept)
  else
    redis.call('DEL', mine_key)
    publish(fence_key, ARGV[5], 'events', 'released ' .. number .. ' ' .. (seat[2] or '0'))
  end
end
if ARGV[4] == '1' then
  redis.call('PEXPIRE', gone_key, GONE_TTL)
  bury(gone_key, token)
end
if redis.call('EXISTS', queue_key) == 1 then
  local line = line_of(fence_key, ARGV[5], queue_key, KEYS[4], math.floor(now_us() / 1000))
  line.prune()
  line.walk(line.free(KEYS, 6))
  if kept then
    line.nudge(tonumber(number))
  end
end
return {answer}
