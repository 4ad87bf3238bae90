-- Tells who listens to a channel. Returns how many do here, or an error: publishing never fails a script.
local function publish(channel, message)
  return redis.pcall('PUBLISH', channel, message)
end

