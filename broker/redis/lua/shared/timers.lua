-- Timers that are due: delayed messages leave, agents that back off are ready.
--
-- timers      zset  `m|<id>` (a message) or `k|<type>|<key>` (an agent that backs off) -> when it is due, server ms
-- timer:<id>  hash  `stream`, and the seven fields of the entry to come

-- Returns whether it could neither leave nor be buried, and is to be tried again later.
local function fire_message(id)
  local key = P .. 'timer:' .. id
  local flat = call('HGETALL', key)
  local suffix, values = by_name(flat).stream, entry_values(flat)
  if not suffix or not values then return false end
  local sender = string.match(values[FROM], '^([^/]+)/') or string.match(suffix, ':(.*)$')
  -- guard: a timer fires once
  if send_or_bury(sender, suffix, 0, values[ID], values[TYPE], values[KEY], values[FROM], values[HEAD], values[BODY]) then
    return true
  end
  call('DEL', key)
  return false
end

local function next_due()
  local head = call('ZRANGE', P .. 'timers', 0, 0, 'WITHSCORES')
  return head[2] and tonumber(head[2])
end

-- Fires what is due. Returns when the next timer is, as text, or ''.
local function fire_due()
  local first = next_due()
  if not first then return '' end
  if first > now() then return text(first) end
  this.claims = this.claims or {}
  local due = call('ZRANGEBYSCORE', P .. 'timers', '-inf', text(now()), 'LIMIT', 0, 100)
  for i = 1, #due do
    local kind, rest = string.match(due[i], '^(%a)|(.*)$')
    local is_later = false
    if kind == 'm' then
      is_later = fire_message(rest)
    elseif kind == 'k' then
      local agent_type, key = string.match(rest, '^([^|]*)|(.*)$')
      -- The agent may run again already, if it was mended while it backed off: it is not made ready twice.
      if call('HGET', P .. 'busy:' .. agent_type, key) == '' then make_ready(agent_type, key) end
    end
    -- guard: a timer that fired is gone
    if not is_later then call('ZREM', P .. 'timers', due[i]) end
  end
  first = next_due()
  return first and text(first) or ''
end
