local MAX_FENCE = 9007199254740991 -- beyond 2^53 - 1 Lua's numbers skip some

-- What the fence's key says: the last fence, as text, and how many seats the candidates have known of. The second is there
-- for groups only. Returns nothing if it is no counter of ours.
local function counter(value)
  local fence, seats = string.match(value, '^(%d+) ?(%d*)$')
  return fence, fence and (tonumber(seats) or 1)
end

