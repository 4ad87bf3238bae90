-- What the scripts begin with, after the prelude, that give seats or take them back: the tick of `once_per`.
--
-- The tick is `begins token was`: when the last period began that was run (ms), the token of who ran it, and what the
-- tick said before, which may have to be put back. Returns the three as they stand there, each '' where there is none.
local function last_run(tick)
  return string.match(redis.call('GET', tick) or '', '^(%d*) ?(%S*) ?(%d*)')
end

-- The run of this token does not count: the tick is again what it was before, unless another run has set it since.
local function restore(tick, token)
  local _, runner, was = last_run(tick)
  if runner ~= token then
    return
  end
  -- First, so that a full server does not refuse what follows; and it mends a tick without an end.
  redis.call('PEXPIRE', tick, math.max(FENCE_TTL, redis.call('PTTL', tick)))
  if was == '' then
    redis.call('DEL', tick)
  else
    redis.call('SET', tick, was, 'KEEPTTL')
  end
end

