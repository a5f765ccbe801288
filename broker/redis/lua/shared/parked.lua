-- Entries that wait behind an agent that is busy, and agents that wait for a worker.
--
-- busy:<type>         hash  agent key -> worker that runs it, or '' while parked entries wait for a worker
-- wait:<type>:<key>   list  references parked behind the agent, in order
-- parked:<type>       hash  agent key -> their number
-- ready:<type>        list  keys whose parked entries may be taken
-- urgent              hash  `<type> <key>` -> the reset that goes before everything else of that agent

local function make_ready(agent_type, key)
  call('HSET', P .. 'busy:' .. agent_type, key, '')
  call('RPUSH', P .. 'ready:' .. agent_type, key)
  ring(agent_type, 1)
end

-- Puts refs back in front of what is parked behind the key, in their order; only a reset stays before them.
local function park_in_front(agent_type, key, refs)
  local reversed, wait = {}, P .. 'wait:' .. agent_type .. ':' .. key
  -- guard: what goes back keeps its order
  for i = #refs, 1, -1 do reversed[#reversed + 1] = refs[i] end
  bulk('LPUSH', wait, reversed)
  call('HINCRBY', P .. 'parked:' .. agent_type, key, #refs)
  local urgent = call('HGET', P .. 'urgent', agent_type .. ' ' .. key)
  if urgent and call('LREM', wait, 0, urgent) > 0 then call('LPUSH', wait, urgent) end
end
