-- Tells who listens to a channel of the election with this fence key. The database is in the channel's name because channels
-- do not belong to one: a message that is published in one is received in all. Returns how many listen here, or an error:
-- publishing never fails a script.
local function publish(fence, database, channel, message)
  return redis.pcall('PUBLISH', string.sub(fence, 1, -6) .. 'db' .. database .. ':' .. channel, message)
end

