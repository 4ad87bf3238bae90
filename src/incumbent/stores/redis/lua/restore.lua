-- The run of this token does not count: the tick is again what it was before, unless another run has set it since.
local function restore(tick, token)
  local _, runner, was = string.match(redis.call('GET', tick) or '', TICK)
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

