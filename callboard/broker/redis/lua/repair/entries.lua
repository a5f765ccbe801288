-- Suspicions about single entries, attempts, resets, timers and keys that should expire.

function kinds.pending(agent_type, suffix, id)
  local consumer, ref = pending_with(agent_type, suffix, id), suffix .. ' ' .. id
  if not consumer or holder_of(agent_type, ref) then return end
  if call('HEXISTS', P .. 'own:' .. consumer, agent_type .. ' ' .. ref) == 1 then return end
  local entry = entry_of(suffix, id)
  if not entry then
    return 'the entry is gone', function()
      call('XACK', P .. suffix, agent_type, id)
      call('HDEL', P .. 'tries:' .. agent_type, ref)
    end
  end
  local values = entry_values(entry)
  local key = values and values[KEY] or 'default'
  if call('ZSCORE', P .. 'early:' .. agent_type, sortable(id) .. '|' .. ref) then return end
  if is_parked(agent_type, key, ref) then return end
  local marked = call('HGET', P .. 'busy:' .. agent_type, key) or ''
  if call('HEXISTS', P .. 'own:' .. marked, agent_type .. ' ' .. ref) == 1 then return end
  return 'no worker holds it', function()
    -- A worker that has it in memory, alive or not, must not commit it once it is given to another.
    if may_commit(consumer) then end_worker(consumer) end
    if may_commit(marked) then end_worker(marked) end
    park_in_order(agent_type, key, ref)
    settle(agent_type, key)
  end
end

function kinds.early(agent_type, member)
  local early = P .. 'early:' .. agent_type
  if not call('ZSCORE', early, member) then return end
  local order, ref = string.match(member, '^([^|]*)|(.*)$')
  local suffix, id = split_ref(ref or '')
  if suffix and string.match(id, '^%d+%-%d+$') and order == sortable(id) and entry_of(suffix, id) then return end
  return 'the entry is gone', function()
    call('ZREM', early, member)
    if suffix then redis.pcall('XACK', P .. suffix, agent_type, id) end
  end
end

function kinds.tries(agent_type, ref)
  if call('HEXISTS', P .. 'tries:' .. agent_type, ref) == 0 then return end
  local suffix, id = split_ref(ref)
  if suffix and (pending_with(agent_type, suffix, id) or holder_of(agent_type, ref)) then return end
  if suffix and is_urgent(suffix) and entry_of(suffix, id) then return end
  return 'the entry is done', function() call('HDEL', P .. 'tries:' .. agent_type, ref) end
end

function kinds.urgent(name)
  local ref = call('HGET', P .. 'urgent', name)
  if not ref then return end
  local suffix, id = split_ref(ref)
  if suffix and entry_of(suffix, id) then return end
  return 'the reset is gone', function() call('HDEL', P .. 'urgent', name) end
end

function kinds.timer(member)
  if not call('ZSCORE', P .. 'timers', member) then return end
  local id = string.match(member, '^m|(.*)$')
  if string.match(member, '^k|[^|]+|') or id and call('EXISTS', P .. 'timer:' .. id) == 1 then return end
  return 'its message is gone', function() call('ZREM', P .. 'timers', member) end
end

function kinds.expiry(suffix, ms)
  if call('PTTL', P .. suffix) ~= -1 then return end
  return 'it would stay for ever', function() call('PEXPIRE', P .. suffix, ms) end
end
