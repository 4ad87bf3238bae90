-- The seat is nobody's for `ms` more: returns that, or 1, as in its last millisecond a key has a PTTL of 0. PEXPIRE
-- comes first, so that a full server does not refuse what follows. One that is as short as that may delete the seat,
-- when a millisecond ends in it; HSET makes it anew then, without an end, and hence PEXPIRE once more.
local function retain(seat, ms)
  ms = math.max(1, ms)
  redis.call('PEXPIRE', seat, ms)
  redis.call('HSET', seat, 'token', RETAINED)
  redis.call('PEXPIRE', seat, ms)
  return ms
end

