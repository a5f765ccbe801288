-- What is still to be done in the namespace, as numbers, and a mark that changes with every message.
--
-- ARGV: nothing
-- Returns {streams with unread entries, agents that are busy and entries read ahead, due timers, mark}.

-- Whether the type's group has still to be given the last entry of a stream. The cursor tells mostly, without XINFO.
local function has_unread(agent_type, suffix)
  local last = redis.pcall('XREVRANGE', P .. suffix, '+', '-', 'COUNT', 1)
  if failure(last) or not last[1] then return false end
  local id = sortable(last[1][1])
  if id <= sortable(call('HGET', P .. 'cursor:' .. agent_type, suffix) or '0-0') then return false end
  local group = group_of(agent_type, suffix)
  return group ~= nil and id > sortable(group['last-delivered-id'])
end

local function idle()
  local unread, pending = 0, 0
  for _, agent_type in ipairs(call('HKEYS', P .. 'types')) do
    for _, suffix in ipairs(call('SMEMBERS', P .. 'streams:' .. agent_type)) do
      if has_unread(agent_type, suffix) then unread = unread + 1 end
    end
    pending = pending + call('HLEN', P .. 'busy:' .. agent_type) + call('ZCARD', P .. 'early:' .. agent_type)
  end
  local due = call('ZCOUNT', P .. 'timers', '-inf', text(now()))
  return { unread, pending, due, call('GET', P .. 'clock') or '' }
end

register('idle', idle)
