-- Stands in front of a user's script: lets it run only if no higher fence was seen, and hides what belongs to the guard.
-- KEYS: register, then the script's own
-- ARGV: fence, then the script's own
-- Returns: the error 'STALEFENCE' with the highest fence that was seen; else what the script returns
-- Fences are whole numbers below 2^53. The register is written first: on a full server it is this write that is refused,
-- and the script has not begun.

do
  local highest, fence = redis.call('GET', KEYS[1]) or '0', ARGV[1]
  if not string.match(highest, '^%d+$') then
    return redis.error_reply('ERR the register of fences holds something else')
  elseif tonumber(highest) > tonumber(fence) then
    return redis.error_reply('STALEFENCE ' .. highest)
  elseif tonumber(highest) < tonumber(fence) then
    redis.call('SET', KEYS[1], fence)
  end
end
local function own(list)
  local rest = {}
  for i = 2, #list do
    rest[i - 1] = list[i]
  end
  return rest
end
local KEYS, ARGV = own(KEYS), own(ARGV)
