-- Who has the seats of an election. Reads only.
-- KEYS: seat+
-- ARGV:
-- Returns: {{seat, leader, fence, since, ttl, retained}, ...}

local taken = {}
for i = 1, #KEYS do
  local seat = redis.call('HMGET', KEYS[i], 'token', 'leader', 'fence', 'since')
  if seat[1] then
    taken[#taken + 1] = {
      i - 1, seat[2] or '', seat[3] or '0', seat[4] or '0', redis.call('PTTL', KEYS[i]), seat[1] == RETAINED and 1 or 0,
    }
  end
end
return taken
