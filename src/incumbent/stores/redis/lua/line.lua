-- What the scripts begin with, after the prelude, that free seats or give them to those who stand in line.
--
-- The line is a sorted set of places by arrival (us). A place is `size:process:grace:ticket`: how many seats its waiter
-- can see, the process whose inbox wakes it, for how long (ms) a seat is then kept for it, and a ticket that is unique
-- there. Beside it, `alive` holds deadlines (ms): `p:process` until when a process is believed to be there, `w:place`
-- until when a woken waiter may take its seat.

-- The line of the election with this fence key. All that it needs is made in here: an election in which nobody stands in
-- line does not pay for it.
local function line_of(fence, database, queue, alive, now_ms)
  local AT_ONCE = 1000 -- arguments of one command: more than some thousands do not fit on Lua's stack
  local MOST_STALE = 30000 -- ms for which a process is believed to be there without another word, at most
  local MOST_GONE = 1000 -- places of dead waiters that one script removes: 3 ms of the server

  local function remove(set, members)
    local count = 0
    for i = 1, #members, AT_ONCE do
      count = count + redis.call('ZREM', set, unpack(members, i, math.min(i + AT_ONCE - 1, #members)))
    end
    return count
  end

  -- Deadlines that are over.
  local function overdue()
    return redis.call('ZRANGEBYSCORE', alive, '-inf', now_ms)
  end

  -- Deadlines that are further off than any that is set: the clock was ahead then, and was set back.
  local function too_far_off()
    return redis.call('ZRANGEBYSCORE', alive, '(' .. now_ms + MOST_STALE, '+inf')
  end

  -- The processes of these deadlines as a set, and the names of all that are to be removed with them; or nothing.
  local function gone_by(names)
    local gone, deadlines = {}, {}
    for _, name in ipairs(names) do
      local process = string.match(name, '^p:(.*)') or string.match(name, '^w:%d+:([^:]+):')
      if process then
        gone[process] = true
        deadlines[#deadlines + 1] = name
        deadlines[#deadlines + 1] = 'p:' .. process
      end
    end
    if #deadlines > 0 then
      return gone, deadlines
    end
  end

  -- The places of these processes. It reads the whole line: 0.3 ms for a thousand waiters.
  local function places_of(processes)
    local found = {}
    for _, place in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
      if processes[string.match(place, '^%d+:([^:]+):')] then
        found[#found + 1] = place
      end
    end
    return found
  end

  -- `kept`: the first time (ms) at which a woken waiter, of those that a walk has met, must have taken its seat.
  local line = {kept = math.huge}

  -- Size, process and grace of a place; size 0 for one of a later release, which is left alone.
  local function parts(place)
    local size, process, grace = string.match(place, '^(%d+):([^:]+):(%d+):')
    return tonumber(size or 0), process, tonumber(grace or 0)
  end

  -- Lets a key live `wanted` ms from now at least; never shortens that. Returns its new TTL.
  local function prolong(key, wanted)
    local ttl = redis.call('PTTL', key)
    if ttl < wanted then
      redis.call('PEXPIRE', key, wanted)
      ttl = wanted
    end
    return ttl
  end

  -- Adds to a set that must never be without an end. PEXPIRE comes first, also where it changes nothing: a user without
  -- that right must not make such a set, and a full server refuses nothing after it.
  local function put(set, ttl, ...)
    local had = redis.call('PTTL', set)
    redis.call('PEXPIRE', set, math.max(had, ttl))
    redis.call('ZADD', set, ...)
    if had < 0 then
      redis.call('PEXPIRE', set, ttl)
    end
  end

  -- Whether somebody hears it; taken for granted where publishing is not allowed.
  function line.tell(process, message)
    return publish(fence, database, 'inbox:' .. process, message) ~= 0
  end

  function line.forget(places)
    if remove(queue, places) > 0 and redis.call('EXISTS', queue) == 0 then
      redis.call('DEL', alive)
      return
    end
    local calls = {}
    for i, place in ipairs(places) do
      calls[i] = 'w:' .. place
    end
    remove(alive, calls)
  end

  -- A process past its deadline, or one that let a wake-up pass, loses all its places: three hundred frozen waiters
  -- cost one grace, not three hundred. Returns whether there was one. A `touch` also cuts deadlines that are too far off;
  -- whoever stands in line sends one soon, so a hand-over need not look for these.
  function line.prune(touch)
    for _, name in ipairs(touch and too_far_off() or {}) do
      put(alive, 2 * MOST_STALE, 'XX', now_ms + MOST_STALE, name)
    end
    local gone, deadlines = gone_by(overdue())
    if not gone then
      return false
    end
    remove(alive, deadlines)
    line.forget(places_of(gone))
    return true
  end

  -- How many places are those of processes that are not there any more, as far as can be told. Reads only.
  function line.deserted()
    local names = overdue()
    for _, name in ipairs(too_far_off()) do
      names[#names + 1] = name
    end
    local gone = gone_by(names)
    return gone and #places_of(gone) or 0
  end

  -- The process is there. Both sets live twice as long as it is believed in.
  function line.believe(process, stale)
    prolong(queue, 2 * stale)
    put(alive, 2 * stale, 'GT', now_ms + stale, 'p:' .. process)
  end

  -- Until when (ms) a seat is kept for it, or false. If that is later than its grace allows, the clock was set back
  -- since: it does not count.
  function line.called(place)
    local _, _, grace = parts(place)
    local deadline = tonumber(redis.call('ZSCORE', alive, 'w:' .. place) or 0)
    return deadline > 0 and deadline <= now_ms + grace and deadline
  end

  -- Takes a place at `arrival` (0: at the end), unless it has one. Who asks has heard its wake-up. Returns its arrival.
  function line.stand(place, arrival, now, stale)
    if arrival == 0 then
      local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
      arrival = tonumber(redis.call('ZSCORE', queue, place) or math.max(now, (last or 0) + 1))
    end
    arrival = string.format('%.0f', arrival)
    local _, process, grace = parts(place)
    put(queue, 2 * math.max(stale, grace), 'NX', arrival, place)
    redis.call('ZREM', alive, 'w:' .. place)
    if stale > 0 then
      line.believe(process, stale)
    end
    return arrival
  end

  -- One more walk is needed: the last waiter whose process hears this touches at once.
  local function nudge_last()
    for _, place in ipairs(redis.call('ZRANGE', queue, 0, 15, 'REV')) do
      local _, process = parts(place)
      if line.tell(process, 'nudge') then
        return
      end
    end
  end

  -- Along the line while seats are free (`free`: their numbers, ascending, taken out as they find an owner). Each
  -- waiter is due the lowest that it can see. Mine: returned. Woken already: reserved. Any other: woken, and
  -- reserved; a waiter whose process does not hear it is gone. After `most` of these the walk stops, and a waiter that is
  -- there is told to go on.
  function line.walk(free, mine, most)
    local granted, passed, more, left, deaf = nil, 0, true, most or MOST_GONE, {}
    while more and #free > 0 do
      local places, gone = redis.call('ZRANGE', queue, passed, passed + 15), {}
      more = #places == 16
      for _, place in ipairs(places) do
        if #free == 0 then
          break
        end
        local size, process, grace = parts(place)
        local kept = free[1] < size and place ~= mine and line.called(place)
        passed = passed + 1
        if free[1] >= size then -- sees none
        elseif place == mine then
          granted = table.remove(free, 1)
        elseif kept or not deaf[process] and line.tell(process, 'wake ' .. place) then
          if not kept then
            kept = now_ms + grace
            put(alive, 2 * grace, kept, 'w:' .. place)
          end
          line.kept = math.min(line.kept, kept)
          table.remove(free, 1)
        else
          deaf[process] = true
          gone[#gone + 1] = place
        end
      end
      if #gone > 0 then
        line.forget(gone)
        passed, left = passed - #gone, left - #gone
        if left <= 0 and #free > 0 then
          nudge_last()
          break
        end
      end
    end
    return granted
  end

  -- Somebody leaves: what was due to it goes to the next in line.
  function line.without(place, free)
    line.prune()
    line.forget({place})
    line.walk(free)
  end

  -- The first that can see this seat sets its timer anew: the seat will be free sooner than it thinks.
  function line.nudge(seat)
    for _, place in ipairs(redis.call('ZRANGE', queue, 0, 15)) do
      local size, process = parts(place)
      if seat < size and line.tell(process, 'nudge') then
        return
      end
    end
  end

  -- The numbers of the free seats among `keys` from `first` on.
  function line.free(keys, first)
    local free = {}
    for i = first, #keys do
      if not redis.call('HGET', keys[i], 'token') then
        free[#free + 1] = i - first
      end
    end
    return free
  end

  return line
end

