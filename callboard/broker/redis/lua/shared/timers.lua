-- Timers that are due: delayed messages leave, agents that back off are ready, and those that waited too long for an answer.
--
-- timers        zset  `m|<name>` (a message) or `k|<type>|<key>` (an agent that backs off) -> when it is due, server ms
-- timer:<name>  hash  `stream`, and the seven fields of the entry to come; the name is of the namespace's clock

-- Where it can neither leave nor be buried, there is another timer for it afterwards.
local function fire_message(name)
  local key = P .. 'timer:' .. name
  local flat = call('HGETALL', key)
  local suffix, values = by_name(flat).stream, entry_values(flat)
  if not suffix or not values then return end
  local recipient = string.match(suffix, '^inbox:(.*)$')
  if recipient then suffix = 'inbox:' .. changing.now_called(recipient) end
  local sender = string.match(values[FROM], '^([^/]+)/') or string.match(suffix, ':(.*)$')
  -- guard: a timer fires once
  send_or_bury(sender, suffix, 0, values[ID], values[TYPE], values[KEY], values[FROM], values[HEAD], values[BODY])
  call('DEL', key)
end

local FAR = 9007199254740992 -- ms: what a person wrote as infinite has to be a number for who waits for it

local function next_due()
  local head = call('ZRANGE', P .. 'timers', '0', '0', 'WITHSCORES')
  return head[2] and math.min(tonumber(head[2]), FAR)
end

-- The agent may run again already, if it was mended while it backed off: it is not made ready twice.
local function fire_agent(agent_type, key)
  agent_type = changing.now_called(agent_type)
  -- guard: who waits for an answer is woken when its time is over
  if not go_on(agent_type, key) and call('HGET', P .. 'busy:' .. agent_type, key) == '' then make_ready(agent_type, key) end
end

-- Fires what is due, of which the first is so. Returns when the next timer is, as text, or ''.
local function fire_due(first)
  if not first then return '' end
  if first > now() then return text(first) end
  this.claims = this.claims or {}
  local due = call('ZRANGEBYSCORE', P .. 'timers', '-inf', now_as_text(), 'LIMIT', 0, 100)
  for i = 1, #due do
    local kind, rest = string.match(due[i], '^(%a)|(.*)$')
    if kind == 'm' then
      fire_message(rest)
    elseif kind == 'k' then
      local agent_type, key = string.match(rest, '^([^|]*)|(.*)$')
      -- guard: a timer that nobody can read stops no worker
      if agent_type then fire_agent(agent_type, key) end
    end
    -- guard: a timer that fired is gone
    call('ZREM', P .. 'timers', due[i])
  end
  first = next_due()
  return first and text(first) or ''
end
