-- Entries that wait behind an agent that is busy, and agents that wait for a worker.
--
-- busy:<type>         hash  agent key -> worker that runs it, or '' while parked entries wait for a worker
-- wait:<type>:<key>   list  references parked behind the agent, in order
-- parked:<type>       hash  agent key -> their number
-- ready:<type>        list  keys whose parked entries may be taken
-- shelved:<type>      hash  agent key -> queue that it belongs in (`ready:` or `suspects:`), while something of it is paused
-- resumed             hash  type -> where the look at its shelved agents goes on, after something was resumed
-- urgent              hash  `<type> <key>` -> the reset that goes before everything else of that agent

local NO_WORKER = 'nobody' -- consumer that stands for no worker: what is parked is pending with it

-- Makes entries pending although no worker holds them, so that trimming spares them.
local function claim_for_none(agent_type, suffix, ids)
  for i = 1, #ids, CHUNK do
    local part = { unpack(ids, i, math.min(i + CHUNK - 1, #ids)) }
    part[#part + 1], part[#part + 2] = 'FORCE', 'JUSTID'
    redis.pcall('XCLAIM', P .. suffix, agent_type, NO_WORKER, 0, unpack(part))
  end
end

local function make_ready(agent_type, key)
  call('HSET', P .. 'busy:' .. agent_type, key, '')
  call('RPUSH', P .. 'ready:' .. agent_type, key)
  ring(agent_type, 1)
end

-- Puts refs back in front of what is parked behind the key, in their order; only a reset stays before them. An error where
-- they can't be parked: see park_or_bury().
local function park_in_front(agent_type, key, refs)
  local reversed, wait = {}, P .. 'wait:' .. agent_type .. ':' .. key
  -- guard: what goes back keeps its order
  for i = #refs, 1, -1 do reversed[#reversed + 1] = refs[i] end
  for i = 1, #reversed, CHUNK do must('LPUSH', wait, unpack(reversed, i, math.min(i + CHUNK - 1, #reversed))) end
  call('HINCRBY', P .. 'parked:' .. agent_type, key, #refs)
  local urgent = call('HGET', P .. 'urgent', agent_type .. ' ' .. key)
  if urgent and call('LREM', wait, 0, urgent) > 0 then call('LPUSH', wait, urgent) end
end

local LOOKED_AT = 1000 -- shelved agents in one call

-- After something was resumed: agents that were put aside are looked at again, from this place on, and the rest of them in
-- the next turns. What is still paused for another reason is put aside again.
local function unshelve(agent_type, from)
  local shelved = P .. 'shelved:' .. agent_type
  local found, keys, queues = call('HSCAN', shelved, from, 'COUNT', LOOKED_AT), {}, {}
  for i = 1, #found[2], 2 do
    local key, queue = found[2][i], found[2][i + 1]
    if not queues[queue] then queues[queue] = {} end
    table.insert(queues[queue], key)
    keys[#keys + 1] = key
  end
  bulk('HDEL', shelved, keys)
  for queue, list in pairs(queues) do bulk('RPUSH', P .. queue .. agent_type, list) end
  if found[1] == '0' then
    call('HDEL', P .. 'resumed', agent_type)
  else
    call('HSET', P .. 'resumed', agent_type, found[1])
  end
  ring(agent_type, 4)
end
