-- Workers and what they hold; their signs of life.
--
-- workers          zset  worker -> when its lease ends, server ms
-- worker:<worker>  hash  host, pid, types, started (ms), accepts, held, running, call (number of its last turn), brought (of its
--                        last one that waited behind a bell), heard (of its last call whose answer it got), blocked (`<when>
--                        <seconds> <what>`). A worker without it was reaped and is fenced: nothing that it sends is written
-- own:<worker>     hash  `<type> <ref>` -> agent key
-- beats            hash  last: when a worker last beat or joined; patience: until when no lease that ended is taken for a
--                        death; since: when that began; server ms

-- What `own:<worker>` names: type, ref.
local function split_own(field)
  local agent_type, ref = string.match(field, '^(%S+) (.*)$')
  -- guard: what a person added to a worker's books keeps nobody from ending it
  return agent_type or '', ref or ''
end

-- Whether a worker holds this entry no more: its message was committed or given back, or the worker was reaped. What a
-- handler sends before its commit, and what it records, names both. Without them (it comes from outside) nothing is fenced.
local function is_fenced(worker, held)
  -- guard: a handler whose message is not its worker's any more writes nothing
  return worker ~= '' and call('HEXISTS', P .. 'own:' .. worker, held) == 0
end

local QUIET = 0.6 -- of a lease: a worker beats twice in one at least, and a call takes its time
local SLOW = 3 -- leases that a worker gets at most, where there is one gap after the other

-- A worker gives a sign of life. Returns the time before which a lease must have ended for its worker to be reaped.
--
-- Without any sign for that part of a lease it was the server that stood still, or the machine, or the network; for a living worker
-- beats twice in a lease. Then the leases of all have ended, and the first one that comes through must not bury the others:
-- each gets one lease from now to beat. Who knows of a death need not wait: see leave.lua. Where beats always come late,
-- patience would have no end: it ends for those that gave no sign since it began, and begins anew for those who die later.
local function sign_of_life(lease)
  local known = call('HMGET', P .. 'beats', 'last', 'patience', 'since')
  -- guard: a pulse that is no number is none
  local last, patience, since = tonumber(known[1] or 0) or 0, tonumber(known[2] or 0) or 0, tonumber(known[3] or 0) or 0
  local is_gap = now() - last > QUIET * lease
  if not is_gap and now() >= patience then since = 0 end
  if is_gap and since == 0 then since = now() end
  -- guard: after a gap nobody is reaped for a lease
  if is_gap then patience = now() + lease end
  -- A clock that was set back must not make it longer.
  patience, since = math.min(patience, now() + lease), math.min(since, now())
  local before = now()
  if now() < patience then
    before = 0
    -- guard: patience has an end
    if now() - since >= SLOW * lease then before, since = since, now() end
  end
  call('HSET', P .. 'beats', 'last', now_as_text(), 'patience', text(patience), 'since', text(since))
  return before
end

-- A worker says with each call which of its calls was answered last. Where the server does not know that one, it has lost
-- what came after: a replica took over that was behind, or a file was not synced.
local function is_behind(last, acknowledged)
  -- guard: a worker whose last call is no number begins anew
  if last and not string.match(last, '^%d+$') then return true end
  return tonumber(last or 0) < tonumber(acknowledged or 0)
end

-- Whether the keys of a worker itself can be used.
local function has_own_books(worker)
  call('HEXISTS', P .. 'own:' .. worker, '')
  return not is_unusable('own:' .. worker) and not is_unusable('worker:' .. worker)
end
