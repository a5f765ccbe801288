-- An agent type that is being renamed or removed. That takes many calls; until the last of them no worker joins with it and no
-- process declares it, so that nobody but these calls touches what it has in hand.
--
-- config  hash  `changing`: `rename <type> <new name> <before or after>`, after: most keys have the new name; or
--               `remove <type> - <dead or discard>`, what becomes of messages that wait

local changing = {}

-- These four words; nil when there is none.
function changing.now()
  return string.match(call('HGET', P .. 'config', 'changing') or '', '^(%S+) (%S+) (%S+) (%S+)$')
end

-- The error for whoever has to wait for the end of a change; nil: there is none, or it is of other types.
function changing.refusal(agent_type)
  if this.changing == nil then this.changing = { changing.now() } end
  local kind, old, new = unpack(this.changing)
  if not kind or agent_type and agent_type ~= old and agent_type ~= new then return nil end
  local line = kind == 'rename' and 'callboard types rename ' .. old .. ' ' .. new or 'callboard types remove ' .. old .. ' --yes'
  local what = kind == 'rename' and 'renamed to ' .. new or 'removed'
  return redis.error_reply('CHANGING the agent type ' .. old .. ' is being ' .. what .. ': wait for its end; if that was interrupted, '
    .. 'run it again: ' .. line)
end

-- The name under which the books of a type are now, for what still says the other one: timers and questions.
function changing.now_called(agent_type)
  local kind, old, new, phase = changing.now()
  if kind ~= 'rename' then return agent_type end
  if phase == 'after' and agent_type == old then return new end
  if phase == 'before' and agent_type == new then return old end
  return agent_type
end
