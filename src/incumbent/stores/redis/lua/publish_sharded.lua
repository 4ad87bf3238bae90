-- Tells who listens to a channel of the election with this fence key, in a cluster: those on the nodes that have its slot,
-- and no others. They listen by SSUBSCRIBE where the server has that, or lets its user have it, and likewise here. Returns
-- how many do on this node, or an error: publishing never fails a script.
local function publish(fence, database, channel, message)
  local name = string.sub(fence, 1, -6) .. 'db' .. database .. ':' .. channel
  local heard = redis.pcall('SPUBLISH', name, message)
  if type(heard) == 'table' then
    heard = redis.pcall('PUBLISH', name, message)
  end
  return heard
end

