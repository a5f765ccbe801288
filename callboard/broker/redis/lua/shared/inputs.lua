-- Questions that handlers ask (ctx.ask), and handlers that wait for the answers without a process.
--
-- input:<id>             hash  a question and what came of it: status (open, answered, expired, withdrawn), see
--                              callboard/broker/redis/client/questions.py
-- inputs                 zset  questions that are open -> when they were asked, server ms
-- inputs:<key>           zset  the same of agents that have this key, as all of a conversation have
-- asking:<run>           zset  the same of a run, or of a part of one (see callboard/runtime/effects.py)
-- suspended:<type>       hash  agent key -> id of the message whose handler waits. The agent is busy with no worker then and in no
--                              list; its message is the first that is parked behind it
-- once:<type>:<message>  hash  `?<name>` -> id of a question of the message's handler
-- timers                 zset  `k|<type>|<key>`: also when the first of the questions expires that an agent waits for
--
-- A handler that is woken and has no answer asks again, which changes nothing, and waits again: to wake it once too often
-- does no harm.

-- How long what belongs to a message is kept that asked something: somebody may answer after months. All of it is put back to
-- its usual time, or goes, when the message ends; ten years is for those whose end nobody sees, such as an entry deleted by hand.
local FOR_LONG, A_DAY = '315360000000', '86400000' -- ms

-- The agent goes on with what is parked behind it, if it waits for an answer. Returns whether it does. It may only be said to
-- wait: a process of a version that knows no questions may have woken it, and ended its message.
local function go_on(named, key)
  local agent_type = changing.now_called(named)
  if call('HDEL', P .. 'suspended:' .. agent_type, key) == 0 then return false end
  -- guard: who is only said to wait is not taken for one that goes on
  if call('HGET', P .. 'busy:' .. agent_type, key) ~= '' then return false end
  call('ZREM', P .. 'timers', 'k|' .. agent_type .. '|' .. key, 'k|' .. named .. '|' .. key)
  -- guard: who waits for an answer is woken by it
  make_ready(agent_type, key)
  return true
end

-- Calls a command for each list in which a question stands while it is open; more arguments stand before its id.
local function in_lists(command, id, ...)
  local arguments = { ... }
  arguments[#arguments + 1] = id
  local of = call('HMGET', P .. 'input:' .. id, 'key', 'run')
  call(command, P .. 'inputs', unpack(arguments))
  if not of[1] then return end
  call(command, P .. 'inputs:' .. of[1], unpack(arguments))
  for path in string.gmatch(of[2] or '', '[^\31]+') do
    local name = ''
    for part in string.gmatch(path, '[^\30]+') do
      name = name .. part
      call(command, P .. 'asking:' .. name, unpack(arguments))
    end
  end
end

-- What came of a question; nothing comes of it any more.
local function end_input(id, status, ...)
  call('HSET', P .. 'input:' .. id, 'status', status, 'at', now_as_text(), ...)
  -- guard: a question that has ended is in no list
  in_lists('ZREM', id)
end

-- The status of a question; one whose time is over has expired by this.
local function status_of(id)
  local known = call('HMGET', P .. 'input:' .. id, 'status', 'expires')
  -- guard: a question that expired is not answered any more
  if known[1] ~= 'open' or known[2] == '' or (tonumber(known[2]) or 0) > now() then return known[1] end
  end_input(id, 'expired')
  return 'expired'
end

-- How long a question is kept when its message has ended, ms: what was written there by hand must not end a call half way.
local function lifetime(kept)
  return kept and #kept < 15 and string.match(kept, '^%d+$') or A_DAY
end

-- Whether the handlers of a message would ask this question again, and get its answer.
local function is_asked(id)
  local agent_type, message, name = unpack(call('HMGET', P .. 'input:' .. id, 'type', 'message', 'name'))
  if not (agent_type and message and name) then return false end
  return call('HGET', P .. 'once:' .. agent_type .. ':' .. message, '?' .. name) == id
end

-- The record of a question that has ended goes after its time, unless its answer is asked for again.
local function end_record(id, kept)
  if not is_asked(id) then call('PEXPIRE', P .. 'input:' .. id, lifetime(kept)) end
end

-- The replies to what a handler asked other agents, and what it let in meanwhile, outlast its wait; what it has recorded does
-- since it asked.
local function keep_replies(record)
  for _, field in ipairs(call('HKEYS', P .. record)) do
    if string.sub(field, 1, 1) == '>' then
      local id = string.sub(field, 2)
      -- guard: the replies to its requests outlast a wait
      call('PEXPIRE', P .. 'call:' .. id, FOR_LONG)
      call('PEXPIRE', P .. 'blob:' .. id .. ':reply', FOR_LONG)
    end
  end
  call('PEXPIRE', P .. 'nested:' .. string.sub(record, 6), FOR_LONG)
end

-- Nothing asks a question of this message any more, or not soon: an open one is withdrawn, and what came of it is kept for some
-- time to be looked at. Returns how long, ms.
local function leave_question(record, field)
  local id = call('HGET', P .. record, field)
  local kept, agent_type, key = unpack(call('HMGET', P .. 'input:' .. id, 'kept', 'type', 'key'))
  local kept_for = lifetime(kept)
  -- A process of a version that knows no questions may have woken the agent.
  if agent_type and key then call('HDEL', P .. 'suspended:' .. agent_type, key) end
  if status_of(id) == 'open' then
    -- guard: a question that nobody waits for is withdrawn
    end_input(id, 'withdrawn')
    call('HDEL', P .. record, field)
  end
  -- guard: a question that has ended has a lifetime
  call('PEXPIRE', P .. 'input:' .. id, kept_for)
  return kept_for
end

-- The message is a dead letter: what it recorded is kept for a replay, but no longer than what any message records.
local function leave_questions(record)
  local kept_for = nil
  local fields = call('HKEYS', P .. record)
  for _, field in ipairs(fields) do
    if string.sub(field, 1, 1) == '?' then kept_for = leave_question(record, field) end
  end
  if not kept_for then return end
  for _, field in ipairs(fields) do
    if string.sub(field, 1, 1) == '>' then call('PEXPIRE', P .. 'call:' .. string.sub(field, 2), kept_for) end
  end
  -- guard: the record of a dead letter has a lifetime
  call('PEXPIRE', P .. record, kept_for)
  call('PEXPIRE', P .. 'nested:' .. string.sub(record, 6), kept_for)
end
