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

