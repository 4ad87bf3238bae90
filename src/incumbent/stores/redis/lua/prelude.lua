-- What every script of this folder begins with. Keys, fields and times that they share; no command runs here.
--
-- A seat is a hash: token (who may extend and release it), leader (its name), fence, since (ms). These fields and
-- their meaning never change. The token RETAINED belongs to nobody: the work is over, a minimum hold keeps the seat.

local RETAINED = 'retained'
local FENCE_TTL = 86400000
local MAX_FENCE = 9007199254740991 -- beyond 2^53 - 1 Lua's numbers skip some
local GONE_TTL = 60000

local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Lets a seat live `wanted` ms from now at least; never shortens that. Returns its new TTL.
local function prolong(seat, wanted)
  local ttl = redis.call('PTTL', seat)
  if ttl < wanted then
    redis.call('PEXPIRE', seat, wanted)
    ttl = wanted
  end
  return ttl
end

-- A candidate's record is a JSON array: expires, registered, started, succeeded, failed (times of this server in us, 0
-- for never), successes, failures, token (of who enrolled it last), strategy, metadata, and what later releases append.
-- The first ten never change their place and meaning. What does not look like this is somebody else's: left alone.
local EXPIRES = '^%[(%d+),'
local RECORD = '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),"(%x+)",(.*)%]$'

-- The parts of a record up to its token, and all that follows; nil when it is not there, or does not live at `now`.
local function living(record, now)
  local parts = record and {string.match(record, RECORD)} or {}
  return parts[1] and tonumber(parts[1]) > now and parts or nil
end

-- A claim that was given up: should its request arrive after all, it finds this. The caller has used PEXPIRE on
-- the key before: so a full server does not refuse what follows, and a user without that right gets no further.
local function bury(gone, token)
  local now_ms = now_us() / 1000
  redis.call('ZADD', gone, now_ms, token)
  redis.call('PEXPIRE', gone, GONE_TTL)
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', now_ms - GONE_TTL)
end

