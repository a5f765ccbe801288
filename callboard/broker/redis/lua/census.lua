-- How the namespace stands, at one moment. Writes nothing. Streams and topics are read by whoever asks, page by page: there
-- may be many of them.
--
-- ARGV: nothing
-- Returns {server ms, timers, next due ms or '', types, workers}
--   types: for each {type, settings, parked, resets, keys held, keys waiting, ready, suspects, letters, stats, newer,
--   suspended}; parked,
--   held and waiting are -1 where there are too many agents to be counted here
--   workers: for each {worker, lease deadline (ms), fields of worker:<worker>, entries held}

local MOST = 2000 -- agents of a type that are counted in one call

-- What a person wrote there in the place of a number counts for nothing.
local function total(key)
  local sum = 0
  for _, number in ipairs(call('HVALS', key)) do
    if string.match(number, '^%d+$') and #number < 16 then sum = sum + tonumber(number) end
  end
  return sum
end

local function agent_type_facts(agent_type, settings)
  local held, waiting, parked = -1, -1, -1
  if call('HLEN', P .. 'busy:' .. agent_type) <= MOST then
    held, waiting, parked = 0, 0, total(P .. 'parked:' .. agent_type)
    for _, worker in ipairs(call('HVALS', P .. 'busy:' .. agent_type)) do
      if worker == '' then waiting = waiting + 1 else held = held + 1 end
    end
    waiting = waiting - call('HLEN', P .. 'shelved:' .. agent_type) - call('HLEN', P .. 'suspended:' .. agent_type)
  end
  return { agent_type, settings, parked, call('XLEN', P .. 'urgent:' .. agent_type), held, waiting, call('LLEN', P .. 'ready:' .. agent_type),
    call('LLEN', P .. 'suspects:' .. agent_type), call('XLEN', P .. 'dead:' .. agent_type),
    call('HGETALL', P .. 'stats:' .. agent_type), call('ZCARD', P .. 'newer:' .. agent_type),
    call('HLEN', P .. 'suspended:' .. agent_type) }
end

local function census()
  local types, workers = {}, {}
  local declared = call('HGETALL', P .. 'types')
  for i = 1, #declared, 2 do types[#types + 1] = agent_type_facts(declared[i], declared[i + 1]) end
  local leases = call('ZRANGE', P .. 'workers', 0, -1, 'WITHSCORES')
  for i = 1, #leases, 2 do
    workers[#workers + 1] = { leases[i], text(tonumber(leases[i + 1])), call('HGETALL', P .. 'worker:' .. leases[i]),
      call('HLEN', P .. 'own:' .. leases[i]) }
  end
  local due = next_due()
  return { now_as_text(), call('ZCARD', P .. 'timers'), due and text(due) or '', types, workers }
end

register('census', census)
