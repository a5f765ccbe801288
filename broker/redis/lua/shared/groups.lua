-- Consumer groups that vanished, by hand or with a server's memory, are made again where they were; groups whose
-- subscription ended stay until all that their type has in hand is handled.
--
-- cursor:<type>  hash  suffix -> last id that the group was given; it stays when the group goes
-- leaving        hash  see topics.lua

-- Pending entries of a group that was destroyed and made again are pending once more, so that trimming spares them.
-- `taken`: fields of own:<worker> that this call is about to write.
local function adopt(agent_type, suffix, taken)
  local function claim(ref)
    local its_suffix, id = split_ref(ref)
    if its_suffix == suffix then claim_for_none(agent_type, suffix, id) end
  end
  local function claim_own(field)
    local its_type, ref = split_own(field)
    if its_type == agent_type then claim(ref) end
  end
  for _, key in ipairs(call('HKEYS', P .. 'parked:' .. agent_type)) do
    for _, ref in ipairs(call('LRANGE', P .. 'wait:' .. agent_type .. ':' .. key, 0, -1)) do claim(ref) end
  end
  for _, member in ipairs(call('ZRANGE', P .. 'early:' .. agent_type, 0, -1)) do
    claim(string.match(member, '^[^|]*|(.*)$'))
  end
  for _, other in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    for _, field in ipairs(call('HKEYS', P .. 'own:' .. other)) do claim_own(field) end
  end
  for i = 1, #taken, 2 do claim_own(taken[i]) end
end

-- A group that vanished goes on where it was: what was handled is not handled again.
local function mend_group(agent_type, suffix, taken)
  local cursor = call('HGET', P .. 'cursor:' .. agent_type, suffix) or '0'
  -- guard: a lost group goes on where it was
  create_group(suffix, agent_type, cursor)
  -- guard: a lost group adopts what was pending
  if cursor ~= '0' then adopt(agent_type, suffix, taken or {}) end
  event('group made again', agent_type, suffix, cursor)
end

-- Returns whether the type was among those that are leaving the stream.
local function stop_leaving(agent_type, suffix)
  local types, left = leaving(suffix), {}
  if not contains(types, agent_type) then return false end
  for i = 1, #types do
    if types[i] ~= agent_type then left[#left + 1] = types[i] end
  end
  if #left > 0 then
    call('HSET', P .. 'leaving', suffix, table.concat(left, ' '))
  else
    call('HDEL', P .. 'leaving', suffix)
  end
  return true
end

-- Ends the group of a type that does not read the stream any more. With it the list of its pending entries would go, and
-- trimming must not take what is parked, read ahead or held. Returns whether it is gone.
local function end_group(agent_type, suffix)
  local group, no_stream = group_of(agent_type, suffix)
  if not group then return no_stream ~= nil end
  call('HSET', P .. 'cursor:' .. agent_type, suffix, group['last-delivered-id'])
  -- guard: a group stays while something of it is in hand
  if tonumber(group.pending) > 0 then return false end
  call('XGROUP', 'DESTROY', P .. suffix, agent_type)
  return true
end

local function start_leaving(agent_type, suffix)
  local types = leaving(suffix)
  if not contains(types, agent_type) then types[#types + 1] = agent_type end
  call('HSET', P .. 'leaving', suffix, table.concat(types, ' '))
end

-- The group of a type that left: it goes when nothing is pending any more; one that vanished before is made again.
local function see_off(agent_type, suffix)
  if end_group(agent_type, suffix) then
    -- guard: a group that went is not missed
    stop_leaving(agent_type, suffix)
  elseif not group_of(agent_type, suffix) then
    mend_group(agent_type, suffix)
    call('SREM', P .. 'streams:' .. agent_type, suffix)
  end
end
