-- Consumer groups that vanished, by hand or with a server's memory, are made again where they were; groups whose
-- subscription ended stay until all that their type has in hand is handled. Pending entries of a group that was made again
-- are pending once more, so that trimming spares them; until all of them are, nothing of the stream is trimmed.
--
-- cursor:<type>  hash  suffix -> last id that the group was given; it stays when the group goes
-- leaving        hash  see topics.lua

-- Those of the refs that belong to the stream are pending, although no worker holds them.
local function claim_refs(agent_type, suffix, refs)
  local ids = {}
  for i = 1, #refs do
    local its_suffix, id = split_ref(refs[i])
    if its_suffix == suffix then ids[#ids + 1] = id end
  end
  this.looked_at = (this.looked_at or 0) + #refs
  claim_for_none(agent_type, suffix, ids)
end

local function refs_of(agent_type, fields)
  local refs = {}
  for i = 1, #fields do
    local its_type, ref = split_own(fields[i])
    if its_type == agent_type then refs[#refs + 1] = ref end
  end
  return refs
end

-- How what was pending is found, one function for each way: gets how far it is, and returns how far it is then.
local ADOPT = {}

-- What workers hold, one worker after the other: what one of them gives back meanwhile is parked, and found later.
ADOPT.own = function(agent_type, suffix, last)
  local workers = call('ZRANGE', P .. 'workers', 0, -1)
  table.sort(workers)
  for _, worker in ipairs(workers) do
    if worker > last then
      if room_for_chores() <= 0 then return 'own ' .. last end
      claim_refs(agent_type, suffix, refs_of(agent_type, call('HKEYS', P .. 'own:' .. worker)))
      this.looked_at, last = this.looked_at + 1, worker
    end
  end
  return 'parked 0'
end

-- What is parked behind one of them, from the end of the list on: it is taken from at its front.
ADOPT.behind = function(agent_type, suffix, key, done)
  local most = math.max(1, room_for_chores())
  local refs = call('LRANGE', P .. 'wait:' .. agent_type .. ':' .. key, -(done + most), -(done + 1))
  claim_refs(agent_type, suffix, refs)
  return #refs == most and text(done + most) or nil
end

-- What is parked behind all agents of the type.
ADOPT.parked = function(agent_type, suffix, cursor)
  repeat
    local found = call('HSCAN', P .. 'parked:' .. agent_type, cursor, 'COUNT', 20)
    local keys = found[2]
    for i = 1, #keys, 2 do
      local length = tonumber(keys[i + 1])
      -- guard: what a step has no room for is a chore of its own
      if length > room_for_chores() then
        call('HSET', P .. 'chores', 'adopt ' .. agent_type .. ' ' .. suffix .. ' ' .. keys[i], 0)
      else
        ADOPT.behind(agent_type, suffix, keys[i], 0)
      end
    end
    cursor = found[1]
  until cursor == '0' or room_for_chores() <= 0
  return cursor ~= '0' and 'parked ' .. cursor or nil
end

-- `<type> <stream>`, and for a long list of parked entries `<type> <stream> <key>`.
STEPS.adopt = function(what, place)
  local agent_type, suffix, key = string.match(what, '^(%S+) (%S+) ?(.*)$')
  local phase, at = string.match(place, '^(%a+) (.*)$')
  if ADOPT[phase] then return ADOPT[phase](agent_type, suffix, at) end
  return ADOPT.behind(agent_type, suffix, key, tonumber(place))
end

-- `taken`: fields of own:<worker> that this call is about to write.
local function adopt(agent_type, suffix, taken)
  local early, fields, what = {}, {}, agent_type .. ' ' .. suffix
  for i, member in ipairs(call('ZRANGE', P .. 'early:' .. agent_type, 0, -1)) do
    early[i] = string.match(member, '^[^|]*|(.*)$')
  end
  claim_refs(agent_type, suffix, early)
  for i = 1, #taken, 2 do fields[#fields + 1] = taken[i] end
  claim_refs(agent_type, suffix, refs_of(agent_type, fields))
  if take_step('adopt', what, 'own ') then take_step('adopt', what, call('HGET', P .. 'chores', 'adopt ' .. what)) end
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
  -- One that was made again may not know yet what is pending.
  if being_adopted()[suffix] then return false end
  call('XGROUP', 'DESTROY', P .. suffix, agent_type)
  return true
end
