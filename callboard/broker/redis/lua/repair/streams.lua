-- Suspicions about workers, topics and consumer groups.

local function reads(agent_type, suffix)
  if call('HEXISTS', P .. 'types', agent_type) == 0 then return false end
  local topic = string.match(suffix, '^topic:(.*)$')
  if not topic then return suffix == 'inbox:' .. agent_type end
  return contains(words(call('HGET', P .. 'topics', topic) or ''), agent_type)
end

-- One function for each kind of suspicion, in three files. It gets the names of the suspicion, writes nothing, and returns
-- nothing when all is well; else what is wrong, and a function that mends it, or nothing and why it stays.
local kinds = {}

function kinds.worker(worker)
  local deadline = call('ZSCORE', P .. 'workers', worker)
  if deadline then
    if tonumber(deadline) >= now() then return end
    return 'its lease ended ' .. text(now() - tonumber(deadline)) .. ' ms ago',
      function() end_worker(worker) end
  end
  if call('EXISTS', P .. 'own:' .. worker, P .. 'worker:' .. worker) == 0 then return end
  return 'it has no lease', function() end_worker(worker) end
end

function kinds.group(agent_type, suffix)
  if not reads(agent_type, suffix) then return end
  local group, wrong = group_of(agent_type, suffix)
  if group and call('SISMEMBER', P .. 'streams:' .. agent_type, suffix) == 1 then return end
  if wrong and string.find(wrong, 'WRONGTYPE', 1, true) then return 'the key is no stream', nil, 'delete the key first' end
  return group and 'the type does not list the stream' or 'there is no group', function()
    mend_group(agent_type, suffix)
    mark_fresh(agent_type, { '0', suffix }, 'CH')
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
  if not group or reads(name, suffix) or contains(leaving(suffix), name) then return end
  local pending = tonumber(group.pending)
  if pending > 0 then
    return 'no agent type that reads the stream has this name', nil,
      text(pending) .. ' entries were given to it and are not acknowledged: declare the agent type again, or end it with XGROUP DESTROY'
  end
  return 'no agent type that reads the stream has this name', function() call('XGROUP', 'DESTROY', P .. suffix, name) end
end

function kinds.consumer(agent_type, suffix, name)
  if name == NO_WORKER or is_living(name) or may_commit(name) then return end
  local found = redis.pcall('XINFO', 'CONSUMERS', P .. suffix, agent_type)
  if failure(found) then return end
  local is_there = false
  for i = 1, #found do is_there = is_there or by_name(found[i]).name == name end
  if not is_there then return end
  return 'it is no worker', function() forget_consumer(name, { agent_type }) end
end
