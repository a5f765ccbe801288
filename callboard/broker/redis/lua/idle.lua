-- What is still to be done in the namespace, as numbers, and a mark that changes with every message. A call looks at so many
-- streams; where there are more, the next one goes on.
--
-- ARGV: '' or the place that the last call returned
-- Returns {streams with unread entries, agents that are busy and entries read ahead, due timers, mark, place or ''}.

local STREAMS = 200

-- Whether the type's group has still to be given the last entry of a stream. The cursor tells mostly, without XINFO.
local function has_unread(agent_type, suffix)
  local last = redis.pcall('XREVRANGE', P .. suffix, '+', '-', 'COUNT', 1)
  if failure(last) or not last[1] then return false end
  local id = sortable(last[1][1])
  if id <= sortable(call('HGET', P .. 'cursor:' .. agent_type, suffix) or '0-0') then return false end
  local group = group_of(agent_type, suffix)
  return group ~= nil and id > sortable(group['last-delivered-id'])
end

-- Returns how many streams have unread entries, and where to go on: `<type> <cursor>` or ''.
local function count_unread(types, place)
  local last, cursor = string.match(place, '^(%S+) (%d+)$')
  local unread, looked_at = 0, 0
  for _, agent_type in ipairs(types) do
    if not last or agent_type >= last then
      local at = agent_type == last and cursor or '0'
      repeat
        if looked_at >= STREAMS then return unread, agent_type .. ' ' .. at end
        local found = call('SSCAN', P .. 'streams:' .. agent_type, at, 'COUNT', STREAMS)
        for _, suffix in ipairs(found[2]) do
          if has_unread(agent_type, suffix) then unread = unread + 1 end
        end
        at, looked_at = found[1], looked_at + #found[2]
      until at == '0'
    end
  end
  return unread, ''
end

local function idle()
  local types, pending = call('HKEYS', P .. 'types'), 0
  table.sort(types)
  for _, agent_type in ipairs(types) do
    -- What waits for a person is nothing left to do now.
    local busy = call('HLEN', P .. 'busy:' .. agent_type) - call('HLEN', P .. 'suspended:' .. agent_type)
    pending = pending + math.max(0, busy) + call('ZCARD', P .. 'early:' .. agent_type)
  end
  local unread, place = count_unread(types, ARGV.place or '')
  local due = call('ZCOUNT', P .. 'timers', '-inf', now_as_text())
  return { unread, pending, due, call('GET', P .. 'clock') or '', place }
end

register('idle', idle)
