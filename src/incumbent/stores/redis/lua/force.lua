-- Take a seat from its holder, whoever it is. Nobody gets it sooner: its time runs on with nobody's token, so that the
-- holder, who learns it when it extends its lease, has ended by then.
-- KEYS: fence seat
-- ARGV: seat fence database
-- Returns: {'forced', seat, leader, fence, since, ttl}, {'kept', seat, leader, fence, since, ttl} or {'free'}
-- `fence` is that of the term that is meant, or '' for any: another one is left alone, as if the seat were free. 'kept'
-- is a seat that was nobody's before.

local number = tonumber(ARGV[1])
local seat = redis.call('HMGET', KEYS[2], 'token', 'leader', 'fence', 'since', 'longest')
if not seat[1] or (ARGV[2] ~= '' and ARGV[2] ~= seat[3]) then
  return {'free'}
end
local leader, fence, since = seat[2] or '', seat[3] or '0', seat[4] or '0'
local ttl = bound(redis.call('PTTL', KEYS[2]), 0, seat[5])
if seat[1] == RETAINED then
  redis.call('PEXPIRE', KEYS[2], ttl)
  return {'kept', number, leader, fence, since, ttl}
end
ttl = retain(KEYS[2], ttl)
publish(KEYS[1], ARGV[3], 'events', 'retained ' .. ARGV[1] .. ' ' .. fence .. ' ' .. ttl)
return {'forced', number, leader, fence, since, ttl}
