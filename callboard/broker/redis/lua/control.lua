-- What goes before all queued work: cancel a request, pause and resume, reset an agent. Workers hear of it on the
-- stream `control`; what must hold for work that nobody has taken yet stands in keys of its own.
--
-- control  stream  fields do, of: `cancel` <message id>; `pause`, `interrupt` and `make way` <target>
-- paused, cancelled: see exceptions.lua
-- shelved:<type>, resumed, urgent: see parked.lua; urgent:<type>  stream  the resets of a type; no group reads it
--
-- ARGV: 'cancel', message id, until (ms)
--     | 'pause' or 'resume', 'type', 'key' or 'topic', name (`type`, `type/key` or topic), by whom, and for 'pause' 'now' where
--       what runs is interrupted as well, else ''; from a handler then its worker and what it holds (see workers.lua)
--     | 'reset', agent type, key, message id, sender
-- Returns 1 when that changed something, else 0; 'FENCED' where the handler's worker holds its message no more.

local CONTROL_ENTRIES = 10000

local function tell(what, of)
  call('XADD', P .. 'control', 'MAXLEN', '~', CONTROL_ENTRIES, '*', 'do', what, 'of', of)
end

-- What waits for an answer is given to a worker, which finds it cancelled.
local function wake_for(message)
  if call('EXISTS', P .. 'inputs') == 0 then return end
  local types, kind, old, new = call('HKEYS', P .. 'types'), changing.now()
  if kind == 'rename' then types[#types + 1], types[#types + 2] = old, new end
  for _, agent_type in ipairs(types) do
    for _, field in ipairs(call('HKEYS', P .. 'once:' .. agent_type .. ':' .. message)) do
      local id = string.sub(field, 1, 1) == '?' and call('HGET', P .. 'once:' .. agent_type .. ':' .. message, field)
      local key = id and call('HGET', P .. 'input:' .. id, 'key') or ''
      -- guard: a message that waits for an answer can be cancelled
      if call('HGET', P .. 'suspended:' .. changing.now_called(agent_type), key) == message then go_on(agent_type, key) end
    end
  end
end

local function cancel()
  call('ZADD', P .. 'cancelled', ARGV.ends, ARGV.message)
  local left = tonumber(ARGV.ends) - now()
  if call('PTTL', P .. 'cancelled') < left then call('PEXPIRE', P .. 'cancelled', text(left)) end
  tell('cancel', ARGV.message)
  wake_for(ARGV.message)
  return 1
end

local function pause()
  local target = ARGV.kind .. ' ' .. ARGV.name
  local is_new = call('HSETNX', P .. 'paused', target, now_as_text() .. ' ' .. ARGV.by) == 1
  if ARGV.when == 'now' then tell('interrupt', target) elseif is_new then tell('pause', target) end
  if not is_new then return 0 end
  event('paused', target, ARGV.by)
  return 1
end

-- Also types that do not subscribe to the topic any more may have entries of it in hand.
local function resume_topic(topic)
  for _, agent_type in ipairs(call('HKEYS', P .. 'types')) do
    -- guard: who left a topic goes on with it, too
    if call('EXISTS', P .. 'shelved:' .. agent_type) == 1 then unshelve(agent_type, '0') end
  end
  for _, agent_type in ipairs(known_receivers('topic:' .. topic)) do
    mark_fresh(agent_type, { '0', 'topic:' .. topic }, 'CH')
    ring(agent_type, 4)
  end
end

local function resume()
  local kind, name = ARGV.kind, ARGV.name
  if call('HDEL', P .. 'paused', kind .. ' ' .. name) == 0 then return 0 end
  if kind == 'topic' then
    resume_topic(name)
  else
    unshelve(string.match(name, '^[^/]*'), '0')
  end
  event('resumed', kind .. ' ' .. name, ARGV.by)
  return 1
end

-- The reset is an entry of a stream that no group reads; it is parked before everything else of its agent.
local function reset()
  local agent_type, key = ARGV.type, ARGV.key
  local name = agent_type .. ' ' .. key
  -- Nothing is parked behind an agent whose type is being renamed.
  local refused = changing.refusal(agent_type)
  if refused then return refused end
  if call('HEXISTS', P .. 'types', agent_type) == 0 or call('HEXISTS', P .. 'urgent', name) == 1 then return 0 end
  local suffix = 'urgent:' .. agent_type
  local id = append.message(suffix, ARGV.id, 'callboard.reset', key, ARGV.sender, '', '')
  local ref = suffix .. ' ' .. id
  call('HSET', P .. 'urgent', name, ref)
  local is_idle = not call('HGET', P .. 'busy:' .. agent_type, key)
  park_in_front(agent_type, key, { ref })
  -- An agent that was put aside because of a paused topic: the reset is not of that topic.
  local was_aside = call('HDEL', P .. 'shelved:' .. agent_type, key) == 1
  -- guard: a reset goes before an agent that waits for an answer
  if not go_on(agent_type, key) and (is_idle or was_aside) then make_ready(agent_type, key) end
  tell('make way', 'key ' .. agent_type .. '/' .. key)
  save_clock()
  return 1
end

local ACTIONS = { cancel = cancel, pause = pause, resume = resume, reset = reset }

-- A handler whose worker stood still, and lost its message, would pause what another has let go on since.
register('control', function()
  local may_be_fenced = ARGV.action == 'pause' or ARGV.action == 'resume'
  if may_be_fenced and is_fenced(ARGV.worker or '', ARGV.holds) then return 'FENCED' end
  return ACTIONS[ARGV.action]()
end)
