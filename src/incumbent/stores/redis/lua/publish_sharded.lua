-- Tells who listens to a channel, in a cluster: those on the nodes that have its slot, and no others. They listen by
-- SSUBSCRIBE where the server has that, or lets its user have it, and likewise here. Returns how many do on this node,
-- or an error: publishing never fails a script.
local function publish(channel, message)
  local heard = redis.pcall('SPUBLISH', channel, message)
  if type(heard) == 'table' then
    heard = redis.pcall('PUBLISH', channel, message)
  end
  return heard
end

