-- Replaces the state of a persistent agent from outside, its logs included. Workers that have it in memory load it again.
--
-- state:<type>:<key>, log:<type>:<key>:<field>  see shared/logs.lua
--
-- ARGV: agent type, key, data, number of logs, then for each: field, 0, number of items, items
-- Returns the version that the state has now.

local function restore()
  local agent_type, key = ARGV.type, ARGV.key
  local state = P .. 'state:' .. agent_type .. ':' .. key
  local version = text(tonumber(call('HGET', state, 'v') or 0) + 1)
  drop_logs(agent_type, key)
  local changes = read_logs(agent_type, key, LOGS_AT)
  for _, change in ipairs(changes) do call('UNLINK', change.key) end
  local line = write_logs(changes, '')
  call('HSET', state, 'v', version, 'd', ARGV.data, 'w', '')
  if line ~= '' then call('HSET', state, 'l', line) end
  return tonumber(version)
end

register('restore', restore)
