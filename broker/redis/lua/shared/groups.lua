-- Consumer groups that vanished, by hand or with a server's memory, are made again where they were.
--
-- cursor:<type>  hash  suffix -> last id that the group was given

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
