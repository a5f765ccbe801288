-- Suspicions about agents: busy marks, what is parked, what may be taken.

local PARKED = 500 -- refs of one wait list that are looked at in one call
local FAR = 10 -- of these, such as are removed from behind in one call, where a long list is searched through

function kinds.key(agent_type, key)
  local holder = call('HGET', P .. 'busy:' .. agent_type, key) or nil
  local length = call('LLEN', wait_list(agent_type, key))
  local counted = tonumber(call('HGET', P .. 'parked:' .. agent_type, key) or 0)
  local workers = runners_of(agent_type, key)
  local function mend() settle(agent_type, key) end
  local function mend_without(list)
    return function()
      for i = 1, #list do end_worker(list[i]) end
      settle(agent_type, key)
    end
  end
  for i = 1, #workers do
    if workers[i] ~= holder then
      return 'the worker ' .. workers[i] .. ' runs it and it is marked for ' .. (holder or 'none'), mend_without({ workers[i] })
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
    return 'no worker would take its ' .. length .. ' parked entries', mend
  elseif length == 0 and holder == '' then
    return 'it waits for entries that are not parked', mend
  end
  if holder ~= '' and call('HEXISTS', P .. 'suspended:' .. agent_type, key) == 1 then
    return 'it is said to wait for an answer, and does not', function() call('HDEL', P .. 'suspended:' .. agent_type, key) end
  end
  if counted ~= length then return 'it counts ' .. counted .. ' parked entries and has ' .. length, mend end
end

function kinds.parked(agent_type, key)
  local list = wait_list(agent_type, key)
  local seen_refs, drop, twice, claim = {}, {}, {}, {}
  for _, ref in ipairs(call('LRANGE', list, 0, PARKED - 1)) do
    local suffix, id = split_ref(ref)
    local is_ref = suffix and string.match(id, '^%d+%-%d+$')
    if seen_refs[ref] then
      twice[#twice + 1] = ref
    elseif not is_ref or holder_of(agent_type, ref) or not entry_of(suffix, id) then
      drop[#drop + 1] = ref
    elseif not is_urgent(suffix) and not pending_with(agent_type, suffix, id) then
      claim[#claim + 1] = ref
    end
    seen_refs[ref] = true
  end
  if #drop + #twice + #claim == 0 then return end
  return #drop + #twice .. ' refs to entries that are gone, held or named twice; ' .. #claim .. ' that are not pending', function()
    for i = 1, call('LLEN', list) > SORTED and math.min(#twice, FAR) or #twice do call('LREM', list, -1, twice[i]) end
    for _, ref in ipairs(drop) do
      call('LREM', list, 1, ref)
      local suffix, id = split_ref(ref)
      if suffix and not holder_of(agent_type, ref) and not is_parked(agent_type, key, ref) then
        redis.pcall('XACK', P .. suffix, agent_type, id)
        call('HDEL', P .. 'tries:' .. agent_type, ref)
        event('vanished', agent_type, ref)
      end
    end
    for _, ref in ipairs(claim) do
      local suffix, id = split_ref(ref)
      claim_for_none(agent_type, suffix, { id })
    end
    settle(agent_type, key)
  end
end

-- Moves an entry in front of another, or to the end; where there is no such pair the whole list is short and is sorted.
function kinds.order(agent_type, key, pair)
  local list = wait_list(agent_type, key)
  if pair == '' then
    if call('LLEN', list) > SORTED or is_sorted(call('LRANGE', list, 0, -1)) then return end
    return 'its entries are not in the order of publishing', function() sort_parked(agent_type, key) end
  end
  local ref, before = string.match(pair, '^([^|]*)|(.*)$')
  if not is_in(list, ref) then return end
  return 'an entry does not stand where it was published', function()
    call('LREM', list, 0, ref) -- it may be named twice
    if before == '' then
      call('RPUSH', list, ref)
    elseif call('LINSERT', list, 'BEFORE', before, ref) <= 0 then
      call('LPUSH', list, ref) -- that one was taken, and with it all that is older
    end
    count_parked(agent_type, key)
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
