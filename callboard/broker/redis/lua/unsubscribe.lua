-- Ends one subscription. What the type was given before is still handled: its group stays so long, and goes with a beat.
-- The cursor stays: a type that subscribes again goes on where it was.
--
-- leaving  hash  see topics.lua
--
-- ARGV: type, 'topic' or 'prefix', name
-- Returns 1, or 0 when there was no such subscription.

local function remove_word(key, field, word)
  local types, left = words(call('HGET', key, field) or ''), {}
  for i = 1, #types do
    if types[i] ~= word then left[#left + 1] = types[i] end
  end
  if #left == #types then return false end
  call('HSET', key, field, table.concat(left, ' '))
  return true
end

local function start_leaving(agent_type, suffix)
  local types = leaving(suffix)
  if not contains(types, agent_type) then types[#types + 1] = agent_type end
  call('HSET', P .. 'leaving', suffix, table.concat(types, ' '))
end

local function leave_stream(agent_type, suffix)
  if not end_group(agent_type, suffix) then start_leaving(agent_type, suffix) end
  call('SREM', P .. 'streams:' .. agent_type, suffix)
  call('ZREM', P .. 'fresh:' .. agent_type, suffix)
end

local function unsubscribe()
  local agent_type, kind, name = ARGV.type, ARGV.kind, ARGV.name
  if kind == 'prefix' then return remove_word(P .. 'prefixes', name, agent_type) and 1 or 0 end
  if not contains(words(call('HGET', P .. 'topics', name) or ''), agent_type) then return 0 end
  -- A prefix that the type has, perhaps by another process, brings the topic all the same.
  -- guard: a topic stays while a prefix brings it
  if contains(prefixed(name), agent_type) then return 1 end
  leave_stream(agent_type, 'topic:' .. name)
  remove_word(P .. 'topics', name, agent_type)
  return 1
end

register('unsubscribe', unsubscribe)
