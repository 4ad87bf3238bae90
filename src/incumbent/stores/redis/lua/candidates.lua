-- A candidate's record is a JSON array: expires, registered, started, succeeded, failed (times of this server in us, 0
-- for never), successes, failures, token (of who enrolled it last), strategy, metadata, and what later releases append.
-- The first ten never change their place and meaning. What does not look like this is somebody else's: left alone.
--
-- Somewhere behind them is `["s",contending,early,early_at,"others"]`, unless all of it would be 0 or empty: whether the
-- node waits to lead or leads, how often in a row its work failed soon after its start and when last (us), and the
-- other stands of the same node id that live, as `token=expires;`. No metadata can look like its beginning: within a
-- string, a quote that is followed by a letter has a backslash in front.
local EXPIRES = '^%[(%d+),'
local RECORD = '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),"(%x+)",(.*)%]$'
local TAIL_BEGINS = ',["s",'
local TAIL = '^,%["s",(%d),(%d+),(%d+),"([%x=;]*)"%]'
local MOST_OTHERS = 8 -- other stands of one node id that are remembered: a node that crashes all the time has more
local EARLY_KEPT_US = 3600000000 -- how long an early failure counts, also after a restart of the node

-- The parts of a record by name, whether it lives or not; nil when it is none.
local function parts_of(record)
  local all = record and {string.match(record, RECORD)} or {}
  if not all[1] then
    return nil
  end
  local parts = {
    expires = all[1], registered = all[2], started = all[3], succeeded = all[4], failed = all[5], successes = all[6],
    failures = all[7], token = all[8], body = all[9], contending = '0', early = '0', early_at = '0', others = '',
  }
  local from = string.find(parts.body, TAIL_BEGINS, 1, true)
  local contending, early, early_at, others = string.match(parts.body, TAIL, from or #parts.body + 1)
  if contending then
    local tail = string.format(',["s",%s,%s,%s,"%s"]', contending, early, early_at, others)
    parts.body = string.sub(parts.body, 1, from - 1) .. string.sub(parts.body, from + #tail)
    parts.contending, parts.early, parts.early_at, parts.others = contending, early, early_at, others
  end
  return parts
end

-- The same, if it lives at `now`.
local function living(record, now)
  local parts = parts_of(record)
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
    parts.expires, parts.registered, parts.started, parts.succeeded, parts.failed, parts.successes, parts.failures,
  }, ',')
  if tail == ',["s",0,0,0,""]' then
    tail = ''
  end
  return '[' .. head .. ',"' .. parts.token .. '",' .. parts.body .. tail .. ']'
end

-- The other stands of `parts` that live at `now`, without the one by `token`: as the record has them, whether `token` was
-- among them, and the one that lives longest (its token and when it expires).
local function others_of(parts, token, now)
  local left, found, best, longest = {}, false, nil, nil
  for other, expires in string.gmatch(parts.others, '(%x+)=(%d+);') do
    if other == token then
      found = true
    elseif tonumber(expires) > now then
      left[#left + 1] = other .. '=' .. expires .. ';'
      if not best or tonumber(expires) > tonumber(longest) then
        best, longest = other, expires
      end
    end
  end
  return table.concat(left), found, best, longest
end

