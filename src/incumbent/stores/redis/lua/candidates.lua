-- A candidate's record is a JSON array: expires, ttl (ms, that it was enrolled for last), registered, started, succeeded,
-- failed, successes, failures, token (of who enrolled it last), strategy, metadata, and what later releases append. Times
-- are those of this server in us, 0 for never; a record that expires at 0 was withdrawn. The first eleven never change
-- their place and meaning. What does not look like this is somebody else's: left alone.
--
-- Somewhere behind them is `["s",contending,early,early_at,"others"]`, unless all of it would be 0 or empty: whether the
-- node waits to lead or leads, how often in a row its work failed soon after its start and when last (us), and the
-- other stands of the same node id that live, as `token=expires=ttl;`. No metadata can look like its beginning: within a
-- string, a quote that is followed by a letter has a backslash in front.
local LIFE = '^%[(%d+),(%d+),'
local RECORD = '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),"(%x+)",(.*)%]$'
local TAIL_BEGINS = ',["s",'
local TAIL = '^,%["s",(%d),(%d+),(%d+),"([%x=;]*)"%]'
local MOST_OTHERS = 8 -- other stands of one node id that are remembered: a node that crashes all the time has more
local EARLY_KEPT_US = 3600000000 -- how long an early failure counts, also after a restart of the node

-- By how many us the clock was ahead, at least, when a record with this end was written: nothing lives longer than it
-- was enrolled for. Zero or less if there is no sign of it.
local function ahead_by(expires, ttl, now)
  return expires - 1000 * ttl - now
end

-- Lets the hash live for `ttl` ms from now at least; returns for how long it does. Asked before anything is written: a full
-- server does not refuse what follows, so that nobody drops out of the election for that, and a user without this right
-- leaves no hash that never expires.
local function keep(key, ttl)
  local lasts = redis.call('PTTL', key)
  if lasts == -1 then
    lasts = FENCE_TTL -- somebody else's doing (PERSIST, RESTORE); nobody's record may be cut short by healing it
  end
  lasts = math.max(lasts, ttl)
  redis.call('PEXPIRE', key, lasts)
  return lasts
end

local function text_of(number)
  return string.format('%.0f', number)
end

-- The parts of a record by name, whether it lives or not; nil when it is none. If the clock was ahead when it was
-- written, its end and its times to come are moved back with the clock: by `back` us, if that is known to be more.
local function parts_of(record, now, back)
  local all = record and {string.match(record, RECORD)} or {}
  if not all[1] then
    return nil
  end
  local parts = {
    expires = all[1], ttl = all[2], registered = all[3], started = all[4], succeeded = all[5], failed = all[6],
    successes = all[7], failures = all[8], token = all[9], body = all[10], contending = '0', early = '0',
    early_at = '0', others = '',
  }
  local from = string.find(parts.body, TAIL_BEGINS, 1, true)
  local contending, early, early_at, others = string.match(parts.body, TAIL, from or #parts.body + 1)
  if contending then
    local tail = string.format(',["s",%s,%s,%s,"%s"]', contending, early, early_at, others)
    parts.body = string.sub(parts.body, 1, from - 1) .. string.sub(parts.body, from + #tail)
    parts.contending, parts.early, parts.early_at, parts.others = contending, early, early_at, others
  end
  local ahead = math.max(0, ahead_by(parts.expires, parts.ttl, now))
  parts.expires = text_of(parts.expires - ahead)
  for _, name in ipairs({'registered', 'started', 'succeeded', 'failed', 'early_at'}) do
    if tonumber(parts[name]) > now then
      parts[name] = text_of(math.min(now, parts[name] - math.max(ahead, back or 0)))
    end
  end
  return parts
end

-- The same, if it lives at `now`.
local function living(record, now)
  local parts = parts_of(record, now)
  return parts and tonumber(parts.expires) > now and parts or nil
end

-- Whether its early failures still count at `now`.
local function faltering(parts, now)
  return parts.early ~= '0' and tonumber(parts.early_at) + EARLY_KEPT_US > now
end

-- The record of `parts`.
local function record_of(parts)
  local tail = string.format(
    ',["s",%s,%s,%s,"%s"]', parts.contending, parts.early, parts.early_at, parts.others
  )
  local head = table.concat({
    parts.expires, parts.ttl, parts.registered, parts.started, parts.succeeded, parts.failed, parts.successes,
    parts.failures,
  }, ',')
  if tail == ',["s",0,0,0,""]' then
    tail = ''
  end
  return '[' .. head .. ',"' .. parts.token .. '",' .. parts.body .. tail .. ']'
end

-- The other stands of `parts` that live at `now`, without the one by `token`: as the record has them, whether `token` was
-- among them, and the one that lives longest, if any (its token, when it expires, its TTL).
local function others_of(parts, token, now)
  local left, found, best = {}, false, {}
  for other, expires, ttl in string.gmatch(parts.others, '(%x+)=(%d+)=(%d+);') do
    expires = expires - math.max(0, ahead_by(expires, ttl, now))
    if other == token then
      found = true
    elseif expires > now then
      left[#left + 1] = string.format('%s=%.0f=%s;', other, expires, ttl)
      if not best.token or expires > best.expires then
        best = {token = other, expires = expires, ttl = ttl}
      end
    end
  end
  return table.concat(left), found, best
end

