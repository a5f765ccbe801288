-- Looks at what somebody suspects to be broken, and mends what really is: every suspicion is checked again here, where
-- nothing else happens meanwhile, so that it does no harm while workers run.
--
-- A worker whose books do not agree with the namespace's is ended as if its lease were over. That is always safe: it
-- can't commit any more, what it held goes back in order without counting an attempt, and it joins again by itself.
--
-- ARGV: 'look' or 'mend', then for each suspicion four values: kind, a, b, c ('' where a kind takes fewer)
--   worker       worker                 a lease that ended, or a worker without a lease
--   group        type, suffix           the type reads the stream and has no group in it
--   topic        type, topic            the type has a group in a topic that does not know it
--   stray group  name, suffix           a group of nobody who reads the stream
--   consumer     type, suffix, name     a consumer that is no worker
--   key          type, key              busy mark, parked entries and their number do not agree
--   parked       type, key              a wait list names entries that are gone, held, or named twice
--   pending      type, suffix, id       an entry that was given out and that nobody holds
--   early        type, member           an entry read ahead that is gone
--   ready        type, key              a key to be taken that is not free
--   tries        type, ref              attempts of an entry that is not pending
--   urgent       `<type> <key>`         a reset that is gone
--   timer        member                 a timer whose message is gone
--   expiry       suffix, ms             a key that should expire and does not
-- Returns {number of the suspicion from 0, 'there' | 'mended' | 'stays', what is wrong, or why it stays, ...}; what is in
--   order is left out.

local PARKED = 500 -- refs of one wait list that are looked at in one call

-- Of one call: `<type> <ref>` -> worker that holds it, `<type> <key>` -> list of the workers that hold entries of it.
local holders, runners

local function is_living(worker)
  local deadline = call('ZSCORE', P .. 'workers', worker)
  return deadline ~= false and deadline ~= nil and tonumber(deadline) >= now()
end

-- Without a lease it is not living, and may commit until it is ended all the same: see step.lua.
local function may_commit(worker) return worker ~= '' and call('EXISTS', P .. 'worker:' .. worker) == 1 end

local function read_holders()
  holders, runners = {}, {}
  for _, worker in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    local fields = call('HGETALL', P .. 'own:' .. worker)
    for i = 1, #fields, 2 do
      local name = (string.match(fields[i], '^(%S+) ') or '') .. ' ' .. fields[i + 1]
      holders[fields[i]] = worker
      if not runners[name] then runners[name] = {} end
      if not contains(runners[name], worker) then table.insert(runners[name], worker) end
    end
  end
end

local function holder_of(agent_type, ref)
  if not holders then read_holders() end
  return holders[agent_type .. ' ' .. ref]
end

local function runners_of(agent_type, key)
  if not holders then read_holders() end
  return runners[agent_type .. ' ' .. key] or {}
end

local function is_in(list, value)
  local at = call('LPOS', list, value)
  return at ~= false and at ~= nil
end

local function pending_with(agent_type, suffix, id)
  local found = redis.pcall('XPENDING', P .. suffix, agent_type, id, id, 1)
  if failure(found) or not found[1] then return nil, failure(found) end
  return found[1][2]
end

-- Whether a worker should give this entry back: not if it is parked, or another's, or acknowledged. The books of a worker
-- that could commit are right about the last: an entry leaves them with its acknowledgement, and a group that was made
-- again may not know it as pending.
local function is_to_return(worker, agent_type, suffix, id, key)
  local consumer, wrong = pending_with(agent_type, suffix, id)
  local ref = suffix .. ' ' .. id
  return (consumer or wrong or may_commit(worker)) and (holder_of(agent_type, ref) or worker) == worker
    and not is_in(P .. 'wait:' .. agent_type .. ':' .. key, ref)
end

-- Ends a worker whatever its books say: what it holds is marked as its own first, so that reaping gives it back.
local function end_worker(worker, crashed)
  local own = P .. 'own:' .. worker
  local fields = call('HGETALL', own)
  for i = 1, #fields, 2 do
    local agent_type, suffix, id = string.match(fields[i], '^(%S+) (%S+) (%d+%-%d+)$')
    local key = fields[i + 1]
    if agent_type and is_to_return(worker, agent_type, suffix, id, key) then
      local holder = call('HGET', P .. 'busy:' .. agent_type, key)
      if not (holder and is_living(holder) and contains(runners_of(agent_type, key), holder)) then
        call('HSET', P .. 'busy:' .. agent_type, key, worker)
      else
        -- Another runs the agent by now: what this one held waits behind it.
        park_in_front(agent_type, key, { suffix .. ' ' .. id })
        call('HDEL', own, fields[i])
      end
    else
      call('HDEL', own, fields[i])
    end
  end
  reap(worker, crashed)
  holders = nil
end

-- Whether something of the agent may be paused: a pause of any topic counts, because its entry may be of that topic.
local function may_be_paused(agent_type, key)
  for _, target in ipairs(call('HKEYS', P .. 'paused')) do
    local kind, name = string.match(target, '^(%S+) (.*)$')
    if kind == 'topic' or kind == 'type' and name == agent_type or kind == 'key' and name == agent_type .. '/' .. key then
      return true
    end
  end
  return false
end

-- Whether somebody will take what is parked behind the key.
local function is_scheduled(agent_type, key)
  if is_in(P .. 'ready:' .. agent_type, key) or is_in(P .. 'suspects:' .. agent_type, key) then return true end
  if call('ZSCORE', P .. 'timers', 'k|' .. agent_type .. '|' .. key) then return true end
  if call('HEXISTS', P .. 'newer', agent_type .. ' ' .. key) == 1 then return true end
  return call('HEXISTS', P .. 'shelved:' .. agent_type, key) == 1 and may_be_paused(agent_type, key)
end

-- A reset is parked before everything else, in a stream that no group reads: see control.lua.
local function is_urgent(suffix) return string.sub(suffix, 1, 7) == 'urgent:' end

local function count_parked(agent_type, key)
  local length = call('LLEN', P .. 'wait:' .. agent_type .. ':' .. key)
  if length > 0 then
    call('HSET', P .. 'parked:' .. agent_type, key, length)
  else
    call('HDEL', P .. 'parked:' .. agent_type, key)
  end
  return length
end

-- What is parked behind a key is in the order of publishing.
local function sort_parked(agent_type, key)
  local list = P .. 'wait:' .. agent_type .. ':' .. key
  local refs, orders = call('LRANGE', list, 0, -1), {}
  local is_sorted = true
  for i = 1, #refs do
    local suffix, id = split_ref(refs[i])
    orders[refs[i]] = id and not is_urgent(suffix) and string.match(id, '^%d+%-%d+$') and sortable(id) or ''
    is_sorted = is_sorted and (i == 1 or orders[refs[i - 1]] <= orders[refs[i]])
  end
  if is_sorted then return end
  table.sort(refs, function(a, b) return orders[a] < orders[b] end)
  call('DEL', list)
  bulk('RPUSH', list, refs)
end

-- Marks a key that no worker runs as what it is: free, or to be taken because something is parked behind it.
local function settle(agent_type, key)
  local marked = call('HGET', P .. 'busy:' .. agent_type, key)
  -- Without a lease it still holds what it took: that goes back first, in its order.
  if marked and not is_living(marked) and may_commit(marked) then end_worker(marked, false) end
  sort_parked(agent_type, key)
  local holder = call('HGET', P .. 'busy:' .. agent_type, key)
  local length = count_parked(agent_type, key)
  if holder and holder ~= '' and is_living(holder) and contains(runners_of(agent_type, key), holder) then return end
  if length == 0 then
    call('HDEL', P .. 'busy:' .. agent_type, key)
    call('HDEL', P .. 'newer', agent_type .. ' ' .. key)
    call('HDEL', P .. 'shelved:' .. agent_type, key)
  elseif is_scheduled(agent_type, key) then
    call('HSET', P .. 'busy:' .. agent_type, key, '')
  else
    call('HDEL', P .. 'shelved:' .. agent_type, key)
    make_ready(agent_type, key)
  end
end

local function group_of(agent_type, suffix)
  local found = redis.pcall('XINFO', 'GROUPS', P .. suffix)
  if failure(found) then return nil, failure(found) end
  for i = 1, #found do
    local group = {}
    for j = 1, #found[i], 2 do group[found[i][j]] = found[i][j + 1] end
    if group.name == agent_type then return group end
  end
  return nil
end

local function reads(agent_type, suffix)
  if call('HEXISTS', P .. 'types', agent_type) == 0 then return false end
  local topic = string.match(suffix, '^topic:(.*)$')
  if not topic then return suffix == 'inbox:' .. agent_type end
  return contains(words(call('HGET', P .. 'topics', topic) or ''), agent_type)
end

-- Each gets what the suspicion names, writes nothing, and returns nothing when all is well; else what is wrong, and
-- a function that mends it, or nothing and why it stays.
local kinds = {}

function kinds.worker(worker)
  local deadline = call('ZSCORE', P .. 'workers', worker)
  if deadline then
    if tonumber(deadline) >= now() then return end
    return 'its lease ended ' .. text(now() - tonumber(deadline)) .. ' ms ago',
      function() end_worker(worker, true) end
  end
  if call('EXISTS', P .. 'own:' .. worker, P .. 'worker:' .. worker) == 0 then return end
  return 'it has no lease', function() end_worker(worker, false) end
end

function kinds.group(agent_type, suffix)
  if not reads(agent_type, suffix) then return end
  local group, wrong = group_of(agent_type, suffix)
  if group and call('SISMEMBER', P .. 'streams:' .. agent_type, suffix) == 1 then return end
  if wrong and string.find(wrong, 'WRONGTYPE', 1, true) then return 'the key is no stream', nil, 'delete the key first' end
  return group and 'the type does not list the stream' or 'there is no group', function()
    mend_group(agent_type, suffix)
    call('SADD', P .. 'fresh:' .. agent_type, suffix)
    ring(agent_type, 1)
  end
end

function kinds.topic(agent_type, topic)
  local suffix = 'topic:' .. topic
  if call('HEXISTS', P .. 'types', agent_type) == 0 or reads(agent_type, suffix) then return end
  if call('SISMEMBER', P .. 'streams:' .. agent_type, suffix) == 0 or not group_of(agent_type, suffix) then return end
  return 'the topic does not know its subscriber', function()
    local types = words(call('HGET', P .. 'topics', topic) or '')
    types[#types + 1] = agent_type
    call('HSET', P .. 'topics', topic, table.concat(types, ' '))
  end
end

kinds['stray group'] = function(name, suffix)
  local group = group_of(name, suffix)
  if not group or reads(name, suffix) then return end
  local pending = tonumber(group.pending)
  if pending > 0 then
    return 'nobody who reads the stream has this name', nil,
      text(pending) .. ' entries were given to it and are not acknowledged: declare the agent type again, or end it with XGROUP DESTROY'
  end
  return 'nobody who reads the stream has this name', function() call('XGROUP', 'DESTROY', P .. suffix, name) end
end

function kinds.consumer(agent_type, suffix, name)
  if name == 'nobody' or is_living(name) or may_commit(name) then return end
  local found = redis.pcall('XINFO', 'CONSUMERS', P .. suffix, agent_type)
  if failure(found) then return end
  local is_there = false
  for i = 1, #found do is_there = is_there or found[i][2] == name end
  if not is_there then return end
  return 'it is no worker', function() forget_consumer(name, { agent_type }, 'nobody') end
end

function kinds.key(agent_type, key)
  local holder = call('HGET', P .. 'busy:' .. agent_type, key) or nil
  local length = call('LLEN', P .. 'wait:' .. agent_type .. ':' .. key)
  local counted = tonumber(call('HGET', P .. 'parked:' .. agent_type, key) or 0)
  local workers = runners_of(agent_type, key)
  local function mend() settle(agent_type, key) end
  local function mend_without(list)
    return function()
      for i = 1, #list do end_worker(list[i], false) end
      settle(agent_type, key)
    end
  end
  for i = 1, #workers do
    if workers[i] ~= holder then
      return 'the worker ' .. workers[i] .. ' runs it and it is marked for ' .. (holder or 'nobody'), mend_without({ workers[i] })
    end
  end
  if holder and holder ~= '' then
    if not is_living(holder) then
      return 'it is marked for the worker ' .. holder .. ', which is gone', may_commit(holder) and mend_without({ holder }) or mend
    end
    if #workers == 0 then
      return 'it is marked for the worker ' .. holder .. ', which does not hold it', mend_without({ holder })
    end
  elseif length > 0 and not (holder and is_scheduled(agent_type, key)) then
    return 'nobody would take its ' .. length .. ' parked entries', mend
  elseif length == 0 and holder == '' then
    return 'it waits for entries that are not parked', mend
  end
  if counted ~= length then return 'it counts ' .. counted .. ' parked entries and has ' .. length, mend end
end

function kinds.parked(agent_type, key)
  local list = P .. 'wait:' .. agent_type .. ':' .. key
  local seen_refs, drop, claim = {}, {}, {}
  for _, ref in ipairs(call('LRANGE', list, 0, PARKED - 1)) do
    local suffix, id = split_ref(ref)
    local is_ref = suffix and string.match(id, '^%d+%-%d+$')
    if not is_ref or seen_refs[ref] or holder_of(agent_type, ref) or not entry_of(suffix, id) then
      drop[#drop + 1] = ref
    elseif not is_urgent(suffix) and not pending_with(agent_type, suffix, id) then
      claim[#claim + 1] = ref
    end
    seen_refs[ref] = true
  end
  if #drop == 0 and #claim == 0 then return end
  return #drop .. ' refs to entries that are gone, held or named twice; ' .. #claim .. ' that are not pending', function()
    for _, ref in ipairs(drop) do
      call('LREM', list, -1, ref)
      local suffix, id = split_ref(ref)
      if suffix and not holder_of(agent_type, ref) and not is_in(list, ref) then
        redis.pcall('XACK', P .. suffix, agent_type, id)
        call('HDEL', P .. 'tries:' .. agent_type, ref)
        event('vanished', agent_type, ref)
      end
    end
    for _, ref in ipairs(claim) do
      local suffix, id = split_ref(ref)
      redis.pcall('XCLAIM', P .. suffix, agent_type, 'nobody', 0, id, 'FORCE', 'JUSTID')
    end
    settle(agent_type, key)
  end
end

function kinds.pending(agent_type, suffix, id)
  local consumer, ref = pending_with(agent_type, suffix, id), suffix .. ' ' .. id
  if not consumer or holder_of(agent_type, ref) then return end
  if call('HEXISTS', P .. 'own:' .. consumer, agent_type .. ' ' .. ref) == 1 then return end
  local entry = entry_of(suffix, id)
  if not entry then
    return 'the entry is gone', function()
      call('XACK', P .. suffix, agent_type, id)
      call('HDEL', P .. 'tries:' .. agent_type, ref)
    end
  end
  local values = entry_values(entry)
  local key = values and values[3] or 'default'
  if call('ZSCORE', P .. 'early:' .. agent_type, sortable(id) .. '|' .. ref) then return end
  if is_in(P .. 'wait:' .. agent_type .. ':' .. key, ref) then return end
  local marked = call('HGET', P .. 'busy:' .. agent_type, key) or ''
  if call('HEXISTS', P .. 'own:' .. marked, agent_type .. ' ' .. ref) == 1 then return end
  return 'nobody holds it', function()
    -- Whoever may have it in memory must not commit it once it is given to another.
    if may_commit(consumer) then end_worker(consumer, false) end
    if may_commit(marked) then end_worker(marked, false) end
    call('RPUSH', P .. 'wait:' .. agent_type .. ':' .. key, ref)
    settle(agent_type, key)
  end
end

function kinds.early(agent_type, member)
  local early = P .. 'early:' .. agent_type
  if not call('ZSCORE', early, member) then return end
  local order, ref = string.match(member, '^([^|]*)|(.*)$')
  local suffix, id = split_ref(ref or '')
  if suffix and string.match(id, '^%d+%-%d+$') and order == sortable(id) and entry_of(suffix, id) then return end
  return 'the entry is gone', function()
    call('ZREM', early, member)
    if suffix then redis.pcall('XACK', P .. suffix, agent_type, id) end
  end
end

function kinds.ready(agent_type, key)
  local lists = { P .. 'ready:' .. agent_type, P .. 'suspects:' .. agent_type }
  if call('HGET', P .. 'busy:' .. agent_type, key) == '' then return end
  if not is_in(lists[1], key) and not is_in(lists[2], key) then return end
  return 'it is not free', function()
    for i = 1, 2 do call('LREM', lists[i], 0, key) end
  end
end

function kinds.tries(agent_type, ref)
  if call('HEXISTS', P .. 'tries:' .. agent_type, ref) == 0 then return end
  local suffix, id = split_ref(ref)
  if suffix and (pending_with(agent_type, suffix, id) or holder_of(agent_type, ref)) then return end
  if suffix and is_urgent(suffix) and entry_of(suffix, id) then return end
  return 'the entry is done', function() call('HDEL', P .. 'tries:' .. agent_type, ref) end
end

function kinds.urgent(name)
  local ref = call('HGET', P .. 'urgent', name)
  if not ref then return end
  local suffix, id = split_ref(ref)
  if suffix and entry_of(suffix, id) then return end
  return 'the reset is gone', function() call('HDEL', P .. 'urgent', name) end
end

function kinds.timer(member)
  if not call('ZSCORE', P .. 'timers', member) then return end
  local id = string.match(member, '^m|(.*)$')
  if string.match(member, '^k|[^|]+|') or id and call('EXISTS', P .. 'timer:' .. id) == 1 then return end
  return 'its message is gone', function() call('ZREM', P .. 'timers', member) end
end

function kinds.expiry(suffix, ms)
  if call('PTTL', P .. suffix) ~= -1 then return end
  return 'it would stay for ever', function() call('PEXPIRE', P .. suffix, ms) end
end

-- A key of the wrong kind makes any command fail; the others are still looked at.
local function guarded(body, ...)
  local went_well, wrong, mend, why = pcall(body, ...)
  if went_well then return wrong, mend, why end
  return failure(wrong) or tostring(wrong), nil, 'delete the key that is of another kind'
end

local function mended(mend, kind, a, b)
  local went_well, wrong = pcall(mend)
  if not went_well then return 'stays', failure(wrong) or tostring(wrong) end
  event('repaired', kind, a, b)
  return 'mended'
end

local function repair()
  local mends, result = ARGV[1] == 'mend', {}
  holders = nil
  for i = 2, #ARGV, 4 do
    local wrong, mend, why = guarded(kinds[ARGV[i]], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    if wrong then
      local status = mend and 'there' or 'stays'
      if mends and mend then status, why = mended(mend, ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
      local n = #result
      result[n + 1], result[n + 2], result[n + 3] = (i - 2) / 4, status, why and wrong .. ': ' .. why or wrong
    end
  end
  save_clock()
  return result
end

register('repair', repair)
