-- A process that stands in line says that it is there, wakes who is due, and asks after its oldest place.
-- KEYS: fence queue alive seat+
-- ARGV: process place stale_ms database probe
-- Returns: {standing, free, soonest}
-- standing: 1 when `place` is still in line. free: how many seats are. soonest: ms until the next may be, or is no longer
-- kept for the waiter that was called to it, or -1.
-- `probe` comes back to the process's inbox: one that does not hear it is deaf.

local process, stale = ARGV[1], tonumber(ARGV[3])
local now_ms = math.floor(now_us() / 1000)
local line = line_of(KEYS[1], ARGV[4], KEYS[2], KEYS[3], now_ms)

line.prune(true)
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then
  line.believe(process, stale)
end
local free = line.free(KEYS, 4)
local count = #free
line.walk(free)
line.tell(process, 'probe ' .. ARGV[5])
local _, ttl = soonest(KEYS, 4, stale)
-- Asked now: a seat may have been due to it, and its inbox deaf to the wake-up.
local standing = redis.call('ZSCORE', KEYS[2], ARGV[2]) and 1 or 0
local left = math.min(ttl or math.huge, line.kept - now_ms)
return {standing, count, left < math.huge and left or -1}
