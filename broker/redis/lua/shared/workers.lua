-- Workers and what they hold; the end of a worker.
--
-- workers          zset  worker -> when its lease ends, server ms
-- worker:<worker>  hash  host, pid, types, started (ms), accepts, held, running, call (number of its last turn). A worker
--                        without it was reaped and is fenced: nothing that it sends is written
-- own:<worker>     hash  `<type> <ref>` -> agent key
-- suspects:<type>  list  keys whose first entry has ended workers: tried alone

-- What `own:<worker>` names: type, ref.
local function split_own(field) return string.match(field, '^(%S+) (.*)$') end

-- The limit that the agent type was declared with.
local function max_attempts(agent_type)
  this.limits = this.limits or {}
  if not this.limits[agent_type] then
    local line = call('HGET', P .. 'types', agent_type)
    local is_json, settings = pcall(cjson.decode, line or '')
    this.limits[agent_type] = is_json and type(settings) == 'table' and tonumber(settings.max_attempts) or 3
  end
  return this.limits[agent_type]
end

-- One more attempt for an entry whose worker died. Returns the number of attempts and the time of the first.
local function count_crash(agent_type, ref)
  local so_far = call('HGET', P .. 'tries:' .. agent_type, ref)
  local attempts, first = string.match(so_far or '', '^(%d+) (%d+)')
  -- guard: a death counts an attempt
  attempts, first = tonumber(attempts or 0) + 1, first or text(now())
  call('HSET', P .. 'tries:' .. agent_type, ref, attempts .. ' ' .. first .. ' its worker died')
  return attempts, first
end

local function bury_crashed(agent_type, ref, attempts, first, worker)
  local suffix, id = split_ref(ref)
  local values = values_or_blank(suffix, id)
  call('XACK', P .. suffix, agent_type, id)
  bury(agent_type, suffix, id, values, {
    reason = 'crashed', error = 'the worker died each time it handled this message', attempts = attempts,
    first = first, worker = worker })
end

-- Gives the refs of one agent back. With `crashed` the first of them (the one that ran) counts an attempt.
local function return_key(agent_type, key, refs, worker, crashed)
  -- Only the worker of the busy mark runs the agent. Where the mark names another (it was changed by hand), that one may
  -- be running it now, and what goes back here must not be run beside it.
  if call('HGET', P .. 'busy:' .. agent_type, key) ~= worker then return end
  local queue = 'ready:'
  if crashed then
    local limit = max_attempts(agent_type)
    -- guard: a death counts for the entry that ran only
    local attempts, first = count_crash(agent_type, refs[1])
    if attempts >= limit then
      bury_crashed(agent_type, table.remove(refs, 1), attempts, first, worker)
    elseif attempts == limit - 1 and limit > 1 then
      queue = 'suspects:'
    end
  end
  -- guard: what a reaped worker held goes back
  if #refs > 0 then park_in_front(agent_type, key, refs) end
  if call('HEXISTS', P .. 'parked:' .. agent_type, key) == 1 then
    call('HSET', P .. 'busy:' .. agent_type, key, '')
    call('RPUSH', P .. queue .. agent_type, key)
    ring(agent_type, 1)
  else
    -- guard: an agent without parked entries is free after reaping
    call('HDEL', P .. 'busy:' .. agent_type, key)
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

local NO_WORKER = 'nobody' -- consumer that stands for no worker: what is parked is pending with it

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

-- Makes entries pending although no worker holds them, so that trimming spares them.
local function claim_for_none(agent_type, suffix, ids)
  for i = 1, #ids, CHUNK do
    local part = { unpack(ids, i, math.min(i + CHUNK - 1, #ids)) }
    part[#part + 1], part[#part + 2] = 'FORCE', 'JUSTID'
    redis.pcall('XCLAIM', P .. suffix, agent_type, NO_WORKER, 0, unpack(part))
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

-- A worker's consumers, in the streams of a type: `<worker> <type>`.
STEPS.leave = function(what, place)
  local worker, agent_type = string.match(what, '^(%S+) (%S+)$')
  local found = call('SSCAN', P .. 'streams:' .. agent_type, place, 'COUNT', CONSUMERS)
  local all_gone = true
  for _, suffix in ipairs(found[2]) do
    -- guard: a consumer with much pending goes later
    if not end_consumer(agent_type, suffix, worker) then all_gone = false break end
  end
  if not all_gone then return place end
  return found[1] ~= '0' and found[1] or nil
end

local function forget_consumer(worker, types)
  for _, agent_type in ipairs(types) do take_step('leave', worker .. ' ' .. agent_type, '0') end
end

-- Ends a worker: everything it held goes back in front, in order; it can never commit again.
local function reap(worker, crashed)
  local list = holdings(worker)
  for i = 1, #list do return_key(list[i].type, list[i].key, list[i].refs, worker, crashed) end
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
  event(crashed and 'reaped' or 'left', worker, #list .. ' keys')
end
