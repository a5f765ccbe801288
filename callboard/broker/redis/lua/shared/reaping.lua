-- The end of a worker: what it held goes back, and its consumers go.
--
-- workers, worker:<worker>, own:<worker>  see workers.lua

local function bury_crashed(agent_type, ref, attempts, first, worker)
  local suffix, id = split_ref(ref)
  local values = values_or_blank(suffix, id)
  return bury_entry(agent_type, suffix, id, values, {
    reason = 'crashed', error = 'the worker died, or lost its lease, each time it handled this message', attempts = attempts,
    first = first, worker = worker })
end

local CERTAIN, UNCERTAIN = 'certain', 'uncertain'

-- The worker died, and held this entry alone: so it is what ended it.
local function blame(agent_type, refs, worker)
  local attempts, first = count_attempt(agent_type, refs[1])
  if attempts >= max_attempts(agent_type) then
    if bury_crashed(agent_type, refs[1], attempts, first, worker) then table.remove(refs, 1) end
  end
end

-- Gives the refs of one agent back. `guilt`: nil when nobody died.
local function return_key(agent_type, key, refs, worker, guilt)
  if guilt == CERTAIN then blame(agent_type, refs, worker) end
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
  local function is_before(a, b)
    local _, x = split_ref(a)
    local _, y = split_ref(b)
    return sortable(x) < sortable(y)
  end
  for i = 1, #list do table.sort(list[i].refs, is_before) end
  return list
end

-- Those of the holdings that go back, and their refs by type. Only the worker of the busy mark runs an agent: where the mark
-- names another (it was changed by hand), that one may be running it now, and what went back here would be run beside it.
local function run_by(worker, list)
  local of_type, running, refs = {}, {}, {}
  for i = 1, #list do
    local agent_type = list[i].type
    if not of_type[agent_type] then of_type[agent_type], refs[agent_type] = {}, {} end
    table.insert(of_type[agent_type], list[i])
  end
  for agent_type, held in pairs(of_type) do
    local keys = {}
    for i = 1, #held do keys[i] = held[i].key end
    local holders = bulk_get(P .. 'busy:' .. agent_type, keys)
    for i = 1, #held do
      if holders[i] == worker then
        running[#running + 1] = held[i]
        for j = 1, #held[i].refs do table.insert(refs[agent_type], held[i].refs[j]) end
      end
    end
  end
  return running, refs
end

-- In the order of the first entry of each agent.
local function sort_by_age(list)
  for i = 1, #list do
    local _, id = split_ref(list[i].refs[1])
    list[i].since = sortable(id)
  end
  table.sort(list, function(a, b) return a.since < b.since end)
end

-- Returns whether the consumer is gone, and whether it had something pending: what it leaves in the pending list moves to
-- another first, so that redis-cli still shows it, and so that trimming does not take what is still parked.
local function end_consumer(agent_type, suffix, worker)
  local ids, pending = {}, redis.pcall('XPENDING', P .. suffix, agent_type, '-', '+', CHUNK, worker)
  if failure(pending) then return true end
  for i = 1, #pending do ids[i] = pending[i][1] end
  this.looked_at = (this.looked_at or 0) + 1 + #ids
  ids[#ids + 1] = 'JUSTID' -- in the list: followed by another argument, unpack() gives its first value only
  -- guard: what a consumer has pending stays when it goes
  if #pending > 0 then call('XCLAIM', P .. suffix, agent_type, NO_WORKER, 0, unpack(ids)) end
  -- guard: a consumer with more pending stays
  if #pending == CHUNK then return false, true end
  redis.pcall('XGROUP', 'DELCONSUMER', P .. suffix, agent_type, worker)
  return true, #pending > 0
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
    local is_gone, had_pending = end_consumer(agent_type, suffix, worker)
    -- The page begins anew then, and a small hash is one page of up to 512: so something has to have moved.
    -- guard: a consumer with much pending goes later
    if not is_gone or had_pending and room_for_chores() <= 0 then return place end
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
  local running, refs = run_by(worker, list)
  for agent_type, its_refs in pairs(guilt == UNCERTAIN and refs or {}) do
    if #its_refs > 0 then count_deaths(agent_type, its_refs) end
  end
  -- guard: what a worker held goes back by age
  if guilt == UNCERTAIN then sort_by_age(running) end
  for i = 1, #running do return_key(running[i].type, running[i].key, running[i].refs, worker, guilt) end
  this.looked_at = (this.looked_at or 0) + 2 * #running -- one agent takes as long as two entries
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
    local has_begun = is_known or not has_not_heard(workers[i])
    -- guard: a death is certain for an entry that was held alone
    guilt[i] = held[process_of(workers[i])] == 1 and has_begun and CERTAIN or UNCERTAIN
  end
  for i = 1, #workers do reap(workers[i], guilt[i]) end
end

-- Ends a worker that believes something else than the server, and is about to hear so: what it holds here goes to others
-- at once, without an attempt.
local function disown(worker, why)
  event('disowned', worker, why)
  reap(worker, false)
  return { 'FENCED' }
end

-- A worker whose own keys are of the wrong type is ended as if its lease were over, and joins again: it may hold what its books
-- do not say, and nothing that it took now would be in them.
local function end_without_books(worker)
  reap(worker, false)
  return { 'FENCED' }
end
