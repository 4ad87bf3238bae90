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

