-- Workers and what they hold; the end of a worker.
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

local function bury_crashed(agent_type, ref, attempts, first, worker)
  local suffix, id = split_ref(ref)
  local values = values_or_blank(suffix, id)
  return bury_entry(agent_type, suffix, id, values, {
    reason = 'crashed', error = 'the worker died, or lost its lease, each time it handled this message', attempts = attempts,
    first = first, worker = worker })
end

local CERTAIN, UNCERTAIN = 'certain', 'uncertain'

-- What the death of a worker means for what it held of one agent. Only an entry that it held alone is known to have ended it.
local function blame(agent_type, refs, worker, guilt)
  if guilt == UNCERTAIN then return count_deaths(agent_type, refs) end
  local attempts, first = count_attempt(agent_type, refs[1])
  if attempts >= max_attempts(agent_type) then
    if bury_crashed(agent_type, refs[1], attempts, first, worker) then table.remove(refs, 1) end
  end
end

-- Gives the refs of one agent back. `guilt`: nil when nobody died.
local function return_key(agent_type, key, refs, worker, guilt)
  -- Only the worker of the busy mark runs the agent. Where the mark names another (it was changed by hand), that one may
  -- be running it now, and what goes back here must not be run beside it.
  if call('HGET', P .. 'busy:' .. agent_type, key) ~= worker then return end
  if guilt then blame(agent_type, refs, worker, guilt) end
  -- guard: what a reaped worker held goes back
  if #refs > 0 then park_or_bury(agent_type, key, refs) end
  if call('HEXISTS', P .. 'parked:' .. agent_type, key) == 0 then
    -- guard: an agent without parked entries is free after reaping
    call('HDEL', P .. 'busy:' .. agent_type, key)
  elseif first_suspicion(agent_type, key) then
    make_suspect(agent_type, key)
  else
    make_ready(agent_type, key)
  end
end

local function by_entry_id(a, b)
  local _, x = split_ref(a)
  local _, y = split_ref(b)
  return sortable(x) < sortable(y)
end

-- own:<worker> as a list of {type, key, refs in order}.
local function holdings(worker)
  local fields = call('HGETALL', P .. 'own:' .. worker)
  local found, list = {}, {}
  for i = 1, #fields, 2 do
    local agent_type, ref = split_own(fields[i])
    local name = agent_type .. ' ' .. fields[i + 1]
    local held = found[name]
    if not held then
      held = { type = agent_type, key = fields[i + 1], refs = {} }
      found[name] = held
      list[#list + 1] = held
    end
    held.refs[#held.refs + 1] = ref
  end
  for i = 1, #list do table.sort(list[i].refs, by_entry_id) end
  return list
end

-- What a consumer leaves in the pending lists moves to another, so that redis-cli still shows it.
local function move_pending(agent_type, suffix, worker)
  for _ = 1, STEP / CHUNK do
    local pending = redis.pcall('XPENDING', P .. suffix, agent_type, '-', '+', CHUNK, worker)
    if failure(pending) or #pending == 0 then break end
    local ids = {}
    for i = 1, #pending do ids[i] = pending[i][1] end
    ids[#ids + 1] = 'JUSTID' -- in the list: followed by another argument, unpack() gives its first value only
    call('XCLAIM', P .. suffix, agent_type, NO_WORKER, 0, unpack(ids))
  end
end

-- Returns whether the consumer is gone.
local function end_consumer(agent_type, suffix, worker)
  -- guard: what a consumer has pending stays when it goes
  move_pending(agent_type, suffix, worker)
  -- With the consumer its pending entries would go, and trimming must not take what is still parked.
  local left = redis.pcall('XPENDING', P .. suffix, agent_type, '-', '+', 1, worker)
  if failure(left) then return true end
  if #left > 0 then return false end
  redis.pcall('XGROUP', 'DELCONSUMER', P .. suffix, agent_type, worker)
  return true
end

local CONSUMERS = 100 -- streams of which a worker's consumer is taken away in one step

-- Some of the streams that a type reads, or of those that it left and has entries of, and where to go on.
local function some_streams(agent_type, place)
  local kind, cursor = string.match(place, '^(%a*)(%d+)$')
  if kind == '' then
    local found = call('SSCAN', P .. 'streams:' .. agent_type, cursor, 'COUNT', CONSUMERS)
    return found[2], found[1] ~= '0' and found[1] or 'left0'
  end
  local found, suffixes = call('HSCAN', P .. 'leaving', cursor, 'COUNT', CONSUMERS), {}
  for i = 1, #found[2], 2 do
    if contains(words(found[2][i + 1]), agent_type) then suffixes[#suffixes + 1] = found[2][i] end
  end
  return suffixes, found[1] ~= '0' and 'left' .. found[1] or nil
end

-- A worker's consumers, in the streams of a type: `<worker> <type>`.
STEPS.leave = function(what, place)
  local worker, agent_type = string.match(what, '^(%S+) (%S+)$')
  local suffixes, following = some_streams(agent_type, place)
  for _, suffix in ipairs(suffixes) do
    local is_gone = end_consumer(agent_type, suffix, worker)
    -- guard: a consumer with much pending goes later
    if not is_gone then return place end
  end
  return following
end

local function forget_consumer(worker, types)
  for _, agent_type in ipairs(types) do
    local what = worker .. ' ' .. agent_type
    if take_step('leave', what, '0') and call('HGET', P .. 'chores', 'leave ' .. what) == 'left0' then
      take_step('leave', what, 'left0')
    end
  end
end

-- Ends a worker: everything it held goes back in front, in order; it can never commit again.
local function reap(worker, guilt)
  local list = holdings(worker)
  for i = 1, #list do return_key(list[i].type, list[i].key, list[i].refs, worker, guilt) end
  local types = words(call('HGET', P .. 'worker:' .. worker, 'types') or '')
  for i = 1, #types do
    if #list > 0 then call('HINCRBY', P .. 'stats:' .. types[i], 'reaped', 1) end
  end
  forget_consumer(worker, types)
  call('DEL', P .. 'own:' .. worker)
  -- The process may be alive, and its last turn on its way: without this key that turn finds itself fenced, and does
  -- not commit what another worker runs by then.
  -- guard: a reaped worker loses its fence
  call('DEL', P .. 'worker:' .. worker)
  call('ZREM', P .. 'workers', worker)
  event(guilt and 'reaped' or 'left', worker, #list .. ' keys', guilt)
end

-- The name of a worker without its number: all workers of one process die together.
local function process_of(worker) return string.match(worker, '^(.*):%d+$') or worker end

-- Whether the last that a worker was given waited for it behind a bell, and nothing says that it has heard of it: it may have
-- stood still before, and begun nothing.
local function has_not_heard(worker)
  local call_, brought, heard = unpack(call('HMGET', P .. 'worker:' .. worker, 'call', 'brought', 'heard'))
  return brought and brought == call_ and (tonumber(heard or 0) or 0) < (tonumber(brought) or 0)
end

-- Ends workers that died, or whose leases ended. `dead`: all workers that may have died with them, they among these;
-- `is_known`: somebody saw them die, so that they did not only stand still.
local function reap_dead(workers, dead, is_known)
  local held, guilt = {}, {}
  for i = 1, #dead do
    local process = process_of(dead[i])
    held[process] = (held[process] or 0) + call('HLEN', P .. 'own:' .. dead[i])
  end
  for i = 1, #workers do
    -- guard: a death is certain for an entry that was held alone
    local has_begun = is_known or not has_not_heard(workers[i])
    guilt[i] = held[process_of(workers[i])] == 1 and has_begun and CERTAIN or UNCERTAIN
  end
  for i = 1, #workers do reap(workers[i], guilt[i]) end
end

local SLOW = 3 -- leases that a worker gets at most, where there is one gap after the other

-- What a worker says of itself with a beat.
local function note_pulse(worker, held, running, heard, runs, blocked)
  call('HSET', P .. 'worker:' .. worker, 'held', held, 'running', running, 'heard', heard, 'runs', runs)
  if blocked ~= '' then call('HSET', P .. 'worker:' .. worker, 'blocked', text(now()) .. ' ' .. blocked) end
end

-- A worker gives a sign of life. Returns the time before which a lease must have ended for its worker to be reaped.
--
-- Without any sign for half a lease it was the server that stood still, or the machine, or the network; for a living worker
-- beats twice in a lease. Then the leases of all have ended, and the first one that comes through must not bury the others:
-- each gets one lease from now to beat. Who knows of a death need not wait: see leave.lua. Where beats always come late,
-- patience would have no end: it ends for those that gave no sign since it began.
local function sign_of_life(lease)
  local known = call('HMGET', P .. 'beats', 'last', 'patience', 'since')
  -- guard: a pulse that is no number is none
  local last, patience, since = tonumber(known[1] or 0) or 0, tonumber(known[2] or 0) or 0, tonumber(known[3] or 0) or 0
  local is_gap = now() - last > lease / 2
  if not is_gap and now() >= patience then since = 0 end
  if is_gap and since == 0 then since = now() end
  -- guard: after a gap nobody is reaped for a lease
  if is_gap then patience = now() + lease end
  -- A clock that was set back must not make it longer.
  patience, since = math.min(patience, now() + lease), math.min(since, now())
  call('HSET', P .. 'beats', 'last', now_as_text(), 'patience', text(patience), 'since', text(since))
  if now() >= patience then return now() end
  -- guard: patience has an end
  return now() - since >= SLOW * lease and since or 0
end

-- A worker says with each call which of its calls was answered last. Where the server does not know that one, it has lost
-- what came after: a replica took over that was behind, or a file was not synced.
local function is_behind(last, acknowledged)
  -- guard: a worker whose last call is no number begins anew
  if last and not string.match(last, '^%d+$') then return true end
  return tonumber(last or 0) < tonumber(acknowledged or 0)
end

-- Ends a worker that believes something else than the server, and is about to hear so: what it holds here goes to others
-- at once, without an attempt.
local function disown(worker, why)
  event('disowned', worker, why)
  reap(worker, false)
  return { 'FENCED' }
end

-- Whether the keys of a worker itself can be used.
local function has_own_books(worker)
  call('HEXISTS', P .. 'own:' .. worker, '')
  return not is_unusable('own:' .. worker) and not is_unusable('worker:' .. worker)
end

-- A worker whose own keys are of the wrong type is ended as if its lease were over, and joins again: it may hold what its books
-- do not say, and nothing that it took now would be in them.
local function end_without_books(worker)
  reap(worker, false)
  return { 'FENCED' }
end
