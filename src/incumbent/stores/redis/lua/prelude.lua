-- What every script of this folder begins with: the keys, fields and times that they share. No command runs here by
-- itself, and what a script does not use must cost it next to nothing; what has to do with the line is in line.lua.
--
-- A seat is a hash: token (who may extend and release it), leader (its name), fence, since (ms); `asked` when its holder
-- is to step down; `longest` time (ms) that its holder has asked for in this term. These fields and their meaning never
-- change. The token RETAINED is no holder's: the work is over, and a minimum hold keeps the seat.

local RETAINED = 'retained'
local FENCE_TTL = 86400000
local MAX_FENCE = 9007199254740991 -- beyond 2^53 - 1 Lua's numbers skip some
local GONE_TTL = 60000

local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- What the names of an election's channels begin with. The database is in it because channels do not belong to one: a
-- message that is published in one is received in all.
local function channels_of(fence, database)
  return string.sub(fence, 1, -6) .. 'db' .. database .. ':'
end

-- What the fence's key says: the last fence, as text, and how many seats the candidates have known of. The second is there
-- for groups only. Returns nothing if it is no counter of ours.
local function counter(value)
  local fence, seats = string.match(value, '^(%d+) ?(%d*)$')
  return fence, fence and (tonumber(seats) or 1)
end

-- Lets a key live `wanted` ms from now at least; never shortens that. Returns its new TTL.
local function prolong(key, wanted)
  local ttl = redis.call('PTTL', key)
  if ttl < wanted then
    redis.call('PEXPIRE', key, wanted)
    ttl = wanted
  end
  return ttl
end

-- How long a seat with this TTL is to live from now: at least `wanted` ms, and at most `longest`, its field. A holder
-- never relies on its seat for longer than that, even if its requests are lost, late or repeated. So it is safe to cut a
-- longer TTL, which is left when the server's clock was ahead and is set back. A seat without an end (PERSIST, RESTORE)
-- gets one by the same rule.
local function bound(ttl, wanted, longest)
  local most = math.max(wanted, tonumber(longest or FENCE_TTL), 1)
  return ttl < 0 and most or math.max(wanted, math.min(ttl, most), 1)
end

-- What who looks at a seat is told of it: number, leader, fence, since, ttl, retained; `seat` is what HMGET says of its
-- LOOKED_AT. A TTL that is missing (PERSIST, RESTORE) or longer than its holder relies on is corrected: those who watch
-- wait until it ends, and nobody else may come by.
local LOOKED_AT = {'token', 'leader', 'fence', 'since', 'longest'}
local function look(key, number, seat)
  local ttl = redis.call('PTTL', key)
  local sound = ttl == 0 and ttl or bound(ttl, 0, seat[5])
  if sound ~= ttl then
    redis.pcall('PEXPIRE', key, sound) -- a user who may only read is told the same
  end
  return {number, seat[2] or '', seat[3] or '0', seat[4] or '0', sound, seat[1] == RETAINED and 1 or 0}
end

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
