-- Suspicions about the logs of agents.

-- A state that was deleted by hand left it.
local function left_over(agent_type, key, field, lengths)
  local log = log_key(agent_type, key, field)
  if lengths[field] or call('EXISTS', log) == 0 then return end
  return 'no state names it', function() call('UNLINK', log) end
end

-- What is there is taken as it is. Whoever has it in memory loads it again: the state gets another version.
function kinds.log(agent_type, key, field)
  local state, wrong = P .. 'state:' .. agent_type .. ':' .. key, {}
  local fields, lengths = lengths_of(call('HGET', state, 'l') or '')
  if field ~= '' then return left_over(agent_type, key, field, lengths) end
  for i, name in ipairs(fields) do
    local found = call('LLEN', log_key(agent_type, key, name))
    if found ~= lengths[name] then
      wrong[#wrong + 1] = name .. ' has ' .. found .. ' items where its state says ' .. lengths[name]
    end
    fields[i] = name .. ' ' .. found
  end
  if #wrong == 0 then return end
  return table.concat(wrong, '; '), function()
    call('HSET', state, 'l', table.concat(fields, ' '), 'w', '')
    call('HINCRBY', state, 'v', 1)
  end
end
