-- What every script of this folder begins with: the keys, fields and times that they share. No command runs here by
-- itself. A function costs a script each time it runs, used or not (making it takes the server 1,500 instructions): what
-- only some scripts need is in files of its own, and all about the line within one function.
--
-- A seat is a hash: token (who may extend and release it), leader (its name), fence, since (ms); `asked` when its holder
-- is to step down; `longest` time (ms) that its holder has asked for in this term. These fields and their meaning never
-- change. The token RETAINED is no holder's: the work is over, and a minimum hold keeps the seat.

local RETAINED = 'retained'
local FENCE_TTL = 86400000
local GONE_TTL = 60000

-- The tick of `once_per` is `begins token was`: when the last period began that was run (ms), the token of who ran it, and
-- what the tick said before, which may have to be put back. Each is '' where there is none.
local TICK = '^(%d*) ?(%S*) ?(%d*)'

local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- How long a seat with this TTL is to live from now: at least `wanted` ms, and at most `longest`, its field. A holder
-- never relies on its seat for longer than that, even if its requests are lost, late or repeated. So it is safe to cut a
-- longer TTL, which is left when the server's clock was ahead and is set back. A seat without an end (PERSIST, RESTORE)
-- gets one by the same rule.
local function bound(ttl, wanted, longest)
  local most = math.max(wanted, tonumber(longest or FENCE_TTL), 1)
  return ttl < 0 and most or math.max(wanted, math.min(ttl, most), 1)
end

