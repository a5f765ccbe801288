-- Giving entries to the worker: what becomes a delivery of the result, and taking what is parked.
--
-- state:<type>:<key>  hash  v (version), d (data), w (worker that wrote it)
-- own:<worker>        hash  see workers.lua; written once, at the end of the turn

local function add_state(turn, agent_type, key)
  local state_key = P .. 'state:' .. agent_type .. ':' .. key
  local known = call('HMGET', state_key, 'v', 'w')
  local data = ''
  if known[1] then
    data = known[2] ~= turn.worker and call('HGET', state_key, 'd') or false
  end
  local states = turn.states
  local n = #states
  states[n + 1], states[n + 2], states[n + 3] = turn.out_n / DELIVERY, known[1] or '0', data
end

local function deliver(turn, agent_type, suffix, id, tries, values)
  if turn.persistent[agent_type] then add_state(turn, agent_type, values[KEY]) end
  if turn.any_cancelled and values[HEAD] ~= '' and call('ZSCORE', P .. 'cancelled', values[ID]) then
    tries = (tries == '' and '0 ' .. text(now()) .. ' 0' or tries) .. ' cancelled'
  end
  local out, n, own, own_n = turn.out, turn.out_n, turn.own_new, turn.own_n
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = agent_type, suffix, id, tries
  out[n + 5], out[n + 6], out[n + 7], out[n + 8] = values[1], values[2], values[3], values[4] -- all seven, in their order
  out[n + 9], out[n + 10], out[n + 11] = values[5], values[6], values[7]
  own[own_n + 1], own[own_n + 2] = agent_type .. ' ' .. suffix .. ' ' .. id, values[KEY]
  turn.out_n, turn.own_n = n + DELIVERY, own_n + 2
end

-- Takes one parked entry. One that is gone was deleted by hand; one that is no message was parked by a repair.
local function take_one(turn, agent_type, key, ref, tries)
  local suffix, id = split_ref(ref)
  local flat = entry_of(suffix, id)
  if not flat then
    event('vanished', agent_type, ref)
    call('XACK', P .. suffix, agent_type, id)
    call('HDEL', P .. 'tries:' .. agent_type, ref)
    return 0
  end
  local values, wrong = entry_values(flat)
  if not values then
    bury_junk(agent_type, suffix, id, flat, wrong, turn.worker)
    return 0
  end
  -- guard: what is taken is pending, also while its group is being mended
  redis.pcall('XCLAIM', P .. suffix, agent_type, turn.worker, 0, id, 'FORCE', 'JUSTID')
  values[KEY] = key
  deliver(turn, agent_type, suffix, id, tries or '', values)
  return 1
end

-- Takes up to `most` of what is parked behind an agent. Returns how many entries there were, and why the agent was put
-- aside: what comes next is 'paused', or a 'suspect', which has to be tried alone (`alone`: it is).
local function take_parked(turn, agent_type, key, most, alone)
  local list, counts = P .. 'wait:' .. agent_type .. ':' .. key, P .. 'parked:' .. agent_type
  local taken = 0
  while taken == 0 do
    local refs = call('LRANGE', list, 0, most - 1)
    if #refs == 0 then
      call('HDEL', counts, key)
      return 0
    end
    if turn.paused then
      refs = up_to_pause(turn, agent_type, key, refs)
      -- What was before it is gone.
      -- guard: an entry that is gone lets nothing paused through
      if #refs == 0 then
        shelve(agent_type, key, alone and 'suspects:' or 'ready:')
        return 0, 'paused'
      end
    end
    local tries, count = bulk_get(P .. 'tries:' .. agent_type, refs), #refs
    -- guard: a suspect goes nowhere beside others
    if not alone then count = before_suspects(agent_type, tries, count) end
    if count == 0 then
      make_suspect(agent_type, key)
      return 0, 'suspect'
    end
    -- guard: what is taken is not parked any more
    call('LTRIM', list, count, -1)
    if call('HINCRBY', counts, key, -count) <= 0 then call('HDEL', counts, key) end
    for i = 1, count do taken = taken + take_one(turn, agent_type, key, refs[i], tries[i]) end
  end
  return taken
end

local HANDED_OVER = 16 -- parked entries of one agent that a worker gets at once

-- Takes an agent that is ready, with what is parked behind it.
local function take_key(turn, agent_type, key, most, queue)
  local busy = P .. 'busy:' .. agent_type
  -- The list may name an agent twice, or one that a worker took since by another way.
  if call('HGET', busy, key) ~= '' then return 0 end
  if turn.paused and is_put_aside(turn, agent_type, key, queue) then return 0 end
  if turn.any_newer and is_too_new(turn, agent_type, key, queue) then return 0 end
  local taken, put_aside = take_parked(turn, agent_type, key, most, queue == 'suspects:')
  if taken > 0 then
    call('HSET', busy, key, turn.worker)
  elseif not put_aside then
    call('HDEL', busy, key)
  elseif put_aside == 'suspect' then
    -- It was given back, or comes behind one that was tried alone: the next turn looks for suspects first.
    turn.more, turn.suspicion = true, turn.suspicion or 0
  end
  return taken
end
