-- What the fence's key says: the last fence, and how many seats the candidates have known of. The second is there for groups
-- only. Anything else is no counter of ours.
local COUNTER = '^(%d+) ?(%d*)$'
local MAX_FENCE = 9007199254740991 -- beyond 2^53 - 1 Lua's numbers skip some

