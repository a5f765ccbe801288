-- What is still to be done in the namespace, as numbers, and a mark that changes with every message.
--
-- ARGV: nothing
-- Returns {unread, pending, due timers, mark}.

local function idle()
  local unread, pending = 0, 0
  for _, agent_type in ipairs(call('HKEYS', P .. 'types')) do
    local streams = call('SMEMBERS', P .. 'streams:' .. agent_type)
    for i = 1, #streams do
      local stream = P .. streams[i]
      local cursor = call('HGET', P .. 'cursor:' .. agent_type, streams[i]) or '0-0'
      local last = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
      if not failure(last) and last[1] and sortable(last[1][1]) > sortable(cursor) then
        local found = redis.pcall('XINFO', 'GROUPS', stream)
        for g = 1, #found do
          local name, delivered
          for j = 1, #found[g], 2 do
            if found[g][j] == 'name' then name = found[g][j + 1] end
            if found[g][j] == 'last-delivered-id' then delivered = found[g][j + 1] end
          end
          if name == agent_type and sortable(last[1][1]) > sortable(delivered) then unread = unread + 1 end
        end
      end
    end
    pending = pending + call('HLEN', P .. 'busy:' .. agent_type) + call('ZCARD', P .. 'early:' .. agent_type)
  end
  local due = call('ZCOUNT', P .. 'timers', '-inf', text(now()))
  return { unread, pending, due, call('GET', P .. 'clock') or '' }
end

register('idle', idle)
