-- Ends one subscription. Entries that were read already are still handled; the group goes.
-- The cursor stays: a type that subscribes again does not handle again what it handled before.
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

local function unsubscribe()
  local agent_type, kind, name = ARGV[1], ARGV[2], ARGV[3]
  if kind == 'prefix' then return remove_word(P .. 'prefixes', name, agent_type) and 1 or 0 end
  if not remove_word(P .. 'topics', name, agent_type) then return 0 end
  call('SREM', P .. 'streams:' .. agent_type, 'topic:' .. name)
  call('ZREM', P .. 'fresh:' .. agent_type, 'topic:' .. name)
  redis.pcall('XGROUP', 'DESTROY', P .. 'topic:' .. name, agent_type)
  return 1
end

register('unsubscribe', unsubscribe)
