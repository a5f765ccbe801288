-- Taking what is parked: agents that are ready, and those whose first entry waited for a worker that knows it.
--
-- newer:<type>  zset  see versions.lua
-- ready:<type>  list  agents whose parked entries may be taken

-- Whether no more of what is parked is taken: of each type there is at least one, or it would wait for the others for ever.
local function is_filled(turn, taken, count) return taken >= count or taken > 0 and turn.bytes >= MOST_BYTES end

-- Agents that are ready: at most so many are looked at that the list may be long, with agents that are paused.
local function pull_ready(turn, agent_type, count)
  local taken, length = 0, call('LLEN', P .. 'ready:' .. agent_type)
  if length == 0 or not has_books(turn, agent_type) then return 0 end
  -- guard: a turn gives a part of many parked entries
  local most = math.min(count, math.max(HANDED_OVER, MOST_PARKED - turn.given))
  -- guard: a turn looks at a part of a long list
  for _ = 1, math.min(length, MOST_LOOKS) do
    if is_filled(turn, taken, most) then break end
    local key = call('LPOP', P .. 'ready:' .. agent_type)
    taken = taken + take_key(turn, agent_type, key, math.min(HANDED_OVER, most - taken), 'ready:')
  end
  if length > MOST_LOOKS or turn.bytes >= MOST_BYTES or most < count and taken >= most then turn.more = true end
  return taken
end

-- Agents that waited for a worker that knows their message, if this one does.
local function pull_newer(turn, agent_type, count)
  local queue, taken, looked = P .. 'newer:' .. agent_type, 0, 0
  local most = math.min(count + 8, MOST_LOOKS) -- some may be taken or paused by now
  for _, line in ipairs(lines_waited_for(agent_type)) do
    -- guard: a worker takes only what it knows
    local members = is_known(turn, line)
      and call('ZRANGEBYLEX', queue, '[' .. line .. '|', '(' .. line .. '}', 'LIMIT', 0, most) or {}
    for i = 1, #members do
      if is_filled(turn, taken, count) or looked >= MOST_LOOKS then
        turn.more = true
        return taken
      end
      looked = looked + 1
      call('ZREM', queue, members[i])
      local key = string.sub(members[i], #line + 2)
      taken = taken + take_key(turn, agent_type, key, math.min(HANDED_OVER, count - taken), 'ready:')
    end
    if #members == most then turn.more = true end
  end
  return taken
end

-- What is parked and waits for no agent. Returns how many entries were taken.
local function pull_parked(turn, agent_type, count)
  local taken = pull_ready(turn, agent_type, count)
  if taken >= count or call('EXISTS', P .. 'newer:' .. agent_type) == 0 or not has_books(turn, agent_type) then return taken end
  return taken + pull_newer(turn, agent_type, count - taken)
end
