-- Putting an agent right: ending a worker whose books are wrong, and marking the agent as what it is.
--
-- busy:<type>, wait:<type>:<key>, parked:<type>, ready:<type>, urgent  see parked.lua
-- shelved:<type>, newer:<type>  see parked.lua and versions.lua

-- Whether a worker should give this entry back: not if it is parked, or another's, or acknowledged. The books of a worker
-- that could commit are right about the last: an entry leaves them with its acknowledgement, and a group that was made
-- again may not know it as pending.
local function is_to_return(worker, agent_type, suffix, id, key)
  local consumer, wrong = pending_with(agent_type, suffix, id)
  local ref = suffix .. ' ' .. id
  return (consumer or wrong or may_commit(worker)) and (holder_of(agent_type, ref) or worker) == worker
    and not is_parked(agent_type, key, ref)
end

-- Ends a worker whatever its books say: what it holds is marked as its own first, so that reaping gives it back.
local function end_worker(worker)
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
  reap(worker)
  this.holders = nil
end

-- Whether some topic is paused: looked up once in a call, for there may be many pauses.
local function is_any_topic_paused()
  if this.any_topic_paused == nil then
    this.any_topic_paused = false
    for _, target in ipairs(call('HKEYS', P .. 'paused')) do
      if string.sub(target, 1, 6) == 'topic ' then this.any_topic_paused = true end
    end
  end
  return this.any_topic_paused
end

-- Whether something of the agent may be paused: a pause of any topic counts, because its entry may be of that topic.
local function may_be_paused(agent_type, key)
  return call('HEXISTS', P .. 'paused', 'type ' .. agent_type) == 1
    or call('HEXISTS', P .. 'paused', 'key ' .. agent_type .. '/' .. key) == 1
    or is_any_topic_paused()
end

-- Whether the handler of what is parked first waits for an answer that has not come.
local function waits_for_answer(agent_type, key)
  local message = call('HGET', P .. 'suspended:' .. agent_type, key)
  if not message then return false end
  local record = P .. 'once:' .. agent_type .. ':' .. message
  for _, field in ipairs(call('HKEYS', record)) do
    if string.sub(field, 1, 1) == '?' and status_of(call('HGET', record, field)) == 'open' then return true end
  end
  return false
end

-- Whether a worker will take what is parked behind the agent.
local function is_scheduled(agent_type, key)
  if is_in(P .. 'ready:' .. agent_type, key) or is_in(P .. 'suspects:' .. agent_type, key) then return true end
  if call('ZSCORE', P .. 'timers', 'k|' .. agent_type .. '|' .. key) then return true end
  if waits_for_newer(agent_type, key) or waits_for_answer(agent_type, key) then return true end
  return call('HEXISTS', P .. 'shelved:' .. agent_type, key) == 1
    and (may_be_paused(agent_type, key) or call('HEXISTS', P .. 'resumed', agent_type) == 1)
end

local function count_parked(agent_type, key)
  local length = call('LLEN', wait_list(agent_type, key))
  if length > 0 then
    call('HSET', P .. 'parked:' .. agent_type, key, length)
  else
    call('HDEL', P .. 'parked:' .. agent_type, key)
  end
  return length
end

-- Marks an agent that no worker runs as what it is: free, or to be taken because something is parked behind it.
local function settle(agent_type, key)
  local marked = call('HGET', P .. 'busy:' .. agent_type, key)
  -- Without a lease it still holds what it took: that goes back first, in its order.
  if marked and not is_living(marked) and may_commit(marked) then end_worker(marked) end
  -- A longer list is put in order entry by entry, see kinds.order.
  if call('LLEN', wait_list(agent_type, key)) <= SORTED then sort_parked(agent_type, key) end
  local holder = call('HGET', P .. 'busy:' .. agent_type, key)
  local length = count_parked(agent_type, key)
  if holder and holder ~= '' and is_living(holder) and contains(runners_of(agent_type, key), holder) then return end
  if length == 0 then
    call('HDEL', P .. 'busy:' .. agent_type, key)
    call('HDEL', P .. 'shelved:' .. agent_type, key)
    call('HDEL', P .. 'suspended:' .. agent_type, key)
  elseif is_scheduled(agent_type, key) then
    call('HSET', P .. 'busy:' .. agent_type, key, '')
  else
    call('HDEL', P .. 'shelved:' .. agent_type, key)
    call('HDEL', P .. 'suspended:' .. agent_type, key)
    make_ready(agent_type, key)
  end
end
