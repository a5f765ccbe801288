-- Suspicions about questions. Whoever handles a message to its end takes its questions along (see shared/inputs.lua), unless
-- it is of a version that knows no questions, or a person deleted the entry.

local NEAR = 100 -- parked entries among which the message of a question is searched: it waits in front of the others

local function is_message(ref, message)
  local suffix, id = split_ref(ref)
  local entry = suffix and string.match(id, '^%d+%-%d+$') and entry_of(suffix, id)
  local values = entry and entry_values(entry)
  if not values then return false end
  return (values[ID] ~= '' and values[ID] or name_of(suffix, id)) == message
end

-- Whether a message is still to be handled, or may be.
local function is_at_hand(agent_type, key, message)
  local list = wait_list(agent_type, key)
  for _, ref in ipairs(call('LRANGE', list, 0, NEAR - 1)) do
    if is_message(ref, message) then return true end
  end
  for _, ref in ipairs(held_of(agent_type, key)) do
    if is_message(ref, message) then return true end
  end
  return call('LLEN', list) > NEAR
end

-- As the end of the message would have left it. The agent goes on if it waits for this, and waits on for another.
local function let_go(id, agent_type, key, message, kept_for)
  local waiting = call('HGET', P .. 'suspended:' .. agent_type, key)
  leave_questions('once:' .. agent_type .. ':' .. message)
  if call('HGET', P .. 'input:' .. id, 'status') == 'open' then end_input(id, 'withdrawn') end
  in_lists('ZREM', id)
  call('PEXPIRE', P .. 'input:' .. id, kept_for)
  if not waiting then return end
  call('HSET', P .. 'suspended:' .. agent_type, key, waiting)
  if waiting == message then go_on(agent_type, key) end
end

function kinds.question(id)
  local record = P .. 'input:' .. id
  local of = call('HMGET', record, 'status', 'type', 'key', 'message', 'kept')
  local status, agent_type, key, message, kept_for = of[1], of[2], of[3], of[4], tonumber(of[5] or '')
  local is_listed = call('ZSCORE', P .. 'inputs', id)
  if not status then
    return is_listed and 'nothing is known of it' or nil, function() in_lists('ZREM', id) end
  end
  if not (agent_type and key and message and kept_for) then
    return 'its record was changed by hand', nil, 'withdraw it, or delete it'
  end
  if status ~= 'open' and not is_listed and call('PTTL', record) <= kept_for then return end
  -- guard: a question is left alone whose message is still to be handled
  if is_at_hand(agent_type, key, message) then
    if (status == 'open') == (is_listed and true or false) then return end
    return status == 'open' and 'it is open, and nobody sees it' or 'it has ended, and is shown as open', function()
      if status == 'open' then in_lists('ZADD', id, now_as_text()) else in_lists('ZREM', id) end
    end
  end
  return 'its message was handled, or deleted', function() let_go(id, agent_type, key, message, kept_for) end
end
