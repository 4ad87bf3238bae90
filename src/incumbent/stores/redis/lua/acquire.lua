-- Take the seat that is due to me, or learn that one is mine already, or who has them; stand in line if asked to.
-- KEYS: fence gone queue alive tick seat+
-- ARGV: token leader lease_ms database [place arrival_us stale_ms [from_ms to_ms [opens_ms closes_ms]]]
-- Returns: {'granted', seat, fence, since, ttl}, {'busy', seat, leader, fence, since, ttl, retained, arrival},
--   {'ran', now, ahead}, {'when', now} or {'gone'}
-- `place` is missing or '' for one try without standing. `arrival_us` is 0 for a newcomer, else what it was told, so
-- that a waiter that was dropped by mistake gets its place back. `stale_ms` is how long its process is believed to be
-- there; 0 for the last try: take the seat or leave the line. If every seat is free but due to other waiters, seat is
-- -1, and ttl the time until the first of these must have come.
-- With a period, [from_ms, to_ms) by the server's clock, there is one run in it: 'ran' when it has been. A claim counts
-- for it in [opens_ms, closes_ms), which is the period itself if it is not given; 'when' if that is not now. `ahead` is
-- how many ms from now the last period that was run begins, or 0: see below.

local fence_key, gone_key, queue_key, tick_key = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local token, leader, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local place, arrival, stale = ARGV[5] or '', ARGV[6] or '0', tonumber(ARGV[7])
local from, to = tonumber(ARGV[8]), tonumber(ARGV[9])
local opens, closes = tonumber(ARGV[10] or ARGV[8]), tonumber(ARGV[11] or ARGV[9])

-- One question for all, unless there is a line for sure: as a rule no claim was given up, and nobody is on a seat.
local lined = place ~= ''
local any = lined or redis.call('EXISTS', gone_key, queue_key, unpack(KEYS, 6)) > 0
lined = lined or any and redis.call('EXISTS', gone_key, queue_key) > 0
if lined and redis.call('ZSCORE', gone_key, token) then
  return {'gone'}
end

local seat, mine, free = nil, nil, lined and {}
for i = 6, #KEYS do
  local owner = any and redis.call('HGET', KEYS[i], 'token')
  if owner == token then
    mine = mine or i
  elseif not owner then
    seat = seat or i - 6
    if lined then
      free[#free + 1] = i - 6
    end
  end
end

local now = now_us()
local now_ms = math.floor(now / 1000)
local line = lined and line_of(fence_key, ARGV[4], queue_key, KEYS[4], now_ms)

if mine then
  if place ~= '' then
    line.without(place, free)
  end
  local has = redis.call('HMGET', KEYS[mine], 'fence', 'since', 'longest')
  local ttl = bound(redis.call('PTTL', KEYS[mine]), lease, has[3])
  redis.call('PEXPIRE', KEYS[mine], ttl)
  if lease > tonumber(has[3] or FENCE_TTL) then
    redis.call('HSET', KEYS[mine], 'longest', lease)
  end
  return {'granted', mine - 6, has[1], has[2], ttl}
end

local was
if from then
  if now_ms < opens or now_ms >= closes then
    return {'when', now_ms}
  end
  local last, runner, before = string.match(redis.call('GET', tick_key) or '', TICK)
  local begins = tonumber(last) or -1
  -- A run of this token without a seat is none: the grant was lost on its way, and then the lease ran out.
  if begins >= from and runner ~= token then
    local ahead = 0
    if begins > to then
      -- The clock was ahead when that was written. It counts as a run of the present period, and not of those to come.
      -- PEXPIRE comes first, so that a full server does not refuse it.
      ahead = begins - now_ms
      redis.call('PEXPIRE', tick_key, math.max(2 * (to - from), lease))
      redis.call('SET', tick_key, ARGV[8] .. ' ' .. runner .. ' ' .. before, 'KEEPTTL')
    end
    if place ~= '' then
      line.without(place, free)
    end
    return {'ran', now_ms, ahead}
  end
  was = runner == token and before or last
end

if line then
  -- On a full server a newcomer is refused here, before anything has changed, by a write of what is there already. A
  -- waiter that has a place needs no more memory: a full server refuses neither its PEXPIRE nor the writes that follow.
  local function knock(known)
    local ttl = math.max(FENCE_TTL, 2 * lease)
    if known then
      redis.call('PEXPIRE', fence_key, ttl)
    else
      redis.call('SET', fence_key, redis.call('GET', fence_key) or '0', 'PX', ttl)
    end
  end

  if place == '' then
    if seat then
      knock()
    end
    line.prune()
    line.walk(free, nil, math.huge)
    seat = free[1] -- a passer-by takes only what the line leaves; it asks once, so the line is walked to its end
  else
    local called = line.called(place)
    knock(called or arrival ~= '0' or redis.call('ZSCORE', queue_key, place))
    called = not line.prune() and called
    if called then -- it stands, and is spared what a newcomer has to do
      seat = line.walk(free, place)
    end
    if not (called and seat) then
      arrival = line.stand(place, tonumber(arrival), now, stale)
      seat = not called and line.walk(free, place)
    end
  end
end

if not seat then
  if place ~= '' and stale == 0 then
    line.forget({place})
  end
  local index, ttl = soonest(KEYS, 6, lease)
  if not index then
    local kept = line and line.kept < math.huge and line.kept - now_ms or 1
    return {'busy', -1, '', '0', '0', kept, 0, arrival}
  end
  local holder = redis.call('HMGET', KEYS[index], 'token', 'leader', 'fence', 'since')
  return {
    'busy', index - 6, holder[2] or '', holder[3] or '0', holder[4] or '0',
    ttl, holder[1] == RETAINED and 1 or 0, arrival,
  }
end

-- The counter comes first: on a full server this is the write that is refused to a claim without a place in line, before
-- anything has changed.
local seat_key = KEYS[6 + seat]
local fence, since = string.format('%.0f', now), string.format('%.0f', now_ms)
local fence_ttl, seats = math.max(FENCE_TTL, 2 * lease), #KEYS - 5
local old = redis.call('SET', fence_key, seats > 1 and fence .. ' ' .. seats or fence, 'PX', fence_ttl, 'GET')
local last, known = tonumber(old or '0'), 1 -- as nearly always: the number alone says that there is one seat
if not last then
  last, known = string.match(old, COUNTER)
  last, known = tonumber(last), tonumber(known) or 1
end
if not (last and last < MAX_FENCE) then
  redis.call('SET', fence_key, old, 'KEEPTTL')
  return redis.error_reply('ERR the fence counter of this election is not one of ours')
elseif last >= now or known > seats then
  fence, seats = string.format('%.0f', math.max(last + 1, now)), math.max(known, seats)
  redis.call('SET', fence_key, seats > 1 and fence .. ' ' .. seats or fence, 'PX', fence_ttl)
end
redis.call('HSET', seat_key, 'token', token, 'leader', leader, 'fence', fence, 'since', since, 'longest', lease)
local bounded = redis.pcall('PEXPIRE', seat_key, lease)
if type(bounded) == 'table' then
  -- A user without this right must not be left with a seat that never expires. SET is allowed: it made the fence.
  redis.call('SET', seat_key, '', 'PX', 1)
  redis.pcall('DEL', seat_key)
  return bounded
end
if from then
  redis.call('SET', tick_key, ARGV[8] .. ' ' .. token .. ' ' .. was, 'PX', math.max(2 * (to - from), lease))
end
if place ~= '' then
  line.forget({place})
end
local elected = 'elected ' .. seat .. ' ' .. fence .. ' ' .. since .. ' ' .. lease .. ' ' .. leader
publish(fence_key, ARGV[4], 'events', elected)
return {'granted', seat, fence, since, lease}
