-- The taken seat among `keys` from `first` on that is free soonest: its index there, and its TTL; or nothing. A TTL of
-- more than `usual` is cut to what the holder relies on, so that no waiter waits for longer than that.
local function soonest(keys, first, usual)
  local index, least
  for i = first, #keys do
    local ttl = redis.call('PTTL', keys[i])
    if ttl == -1 or ttl > usual then
      local sound = bound(ttl, 0, redis.call('HGET', keys[i], 'longest'))
      if sound ~= ttl then
        redis.call('PEXPIRE', keys[i], sound)
        ttl = sound
      end
    end
    if ttl >= 0 and not (least and least <= ttl) then
      index, least = i, ttl
    end
  end
  return index, least
end

