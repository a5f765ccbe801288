-- What keeps entries from being handled as usual: pauses, cancelled requests, messages in a newer version.
--
-- paused          hash  `type <type>`, `key <type>/<key>` or `topic <topic>` -> when (ms) and by whom
-- shelved:<type>, resumed  see parked.lua
-- cancelled       zset  id of a cancelled request -> until when it matters (ms)
-- newer:<type>    zset  see versions.lua

local MOST_KEYS = 500 -- of which is asked at once

-- How many of them exist; nil when there are too many to ask.
local function how_many(keys)
  if #keys > MOST_KEYS then return nil end
  return call('EXISTS', unpack(keys))
end

-- The same with what is parked behind agents of which the worker commits something and takes nothing.
local function with_others(turn, keys)
  local more = nil
  for _, group in ipairs(turn.commits.groups) do
    -- guard: a worker may commit of a type of which it takes nothing
    if turn.terms.rate[group.type] == nil then
      more = more or { unpack(keys) }
      more[#more + 1] = keys_for(turn, group.type).parked
    end
  end
  return more or keys
end

local function read_exceptions(turn)
  if call('EXISTS', P .. 'paused', P .. 'cancelled', P .. 'resumed') == 0 then return end
  local fields = call('HGETALL', P .. 'paused')
  if #fields > 0 then turn.paused = {} end
  for i = 1, #fields, 2 do
    -- `key counter/a` and `type counter` stay as they are, a topic by the suffix of its stream.
    local topic = string.match(fields[i], '^topic (.*)$')
    turn.paused[topic and 'topic:' .. topic or fields[i]] = true
  end
  turn.any_cancelled = call('EXISTS', P .. 'cancelled') == 1
  turn.resumed = by_name(call('HGETALL', P .. 'resumed'))
  if next(turn.resumed) and renew_cursors() then turn.resumed = by_name(call('HGETALL', P .. 'resumed')) end
end

-- Whether there is nothing but new entries and agents that run: no exception, no timer, nothing parked, nobody who waits for a
-- worker. So it is for what comes alone, and one command says it instead of five. A timer that is not due changes little.
local function look_around(turn)
  if this.is_bare then
    turn.is_calm = true
    return
  end
  local keys = turn.terms.around
  if turn.commits.n > 0 and #keys <= MOST_KEYS then keys = with_others(turn, keys) end
  local count = how_many(keys)
  local due = count ~= 0 and next_due()
  turn.next_due = due
  -- guard: what is out of the ordinary is looked at
  turn.is_calm = count == 0 or count == 1 and due and due > now()
  if not turn.is_calm then read_exceptions(turn) end
end

local function is_paused(turn, agent_type, key, suffix)
  local paused = turn.paused
  return paused['type ' .. agent_type] or paused['key ' .. agent_type .. '/' .. key] or paused[suffix]
end

-- The agent stays busy, with no worker, until something is resumed.
local function shelve(agent_type, key, queue)
  call('HSET', P .. 'busy:' .. agent_type, key, '')
  call('HSET', P .. 'shelved:' .. agent_type, key, queue)
end

-- Puts an agent aside whose first entry is paused.
local function is_put_aside(turn, agent_type, key, queue)
  local first = call('LINDEX', P .. 'wait:' .. agent_type .. ':' .. key, 0)
  if not first or not is_paused(turn, agent_type, key, (split_ref(first))) then return false end
  shelve(agent_type, key, queue)
  return true
end

-- Whether the worker knows the message that an agent waits for.
local function is_known(turn, line)
  turn.accepts = turn.accepts or call('HGET', P .. 'worker:' .. turn.worker, 'accepts') or ''
  return knows(turn.accepts, line)
end

-- Whether a living worker of the type knows the message in this version; looked up once in a turn.
local function is_known_to_any(turn, agent_type, line)
  turn.known = turn.known or {}
  local name = agent_type .. ' ' .. line
  if turn.known[name] ~= nil then return turn.known[name] end
  turn.known[name] = false
  for _, other in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    local about = call('HMGET', P .. 'worker:' .. other, 'types', 'accepts')
    if contains(words(about[1] or ''), agent_type) and knows(about[2] or '', line) then
      turn.known[name] = true
      break
    end
  end
  return turn.known[name]
end

-- The agent waits for a worker that knows its first message; one that is there already, and idle, is woken.
local function wait_for_newer(turn, agent_type, key, line)
  call('ZADD', P .. 'newer:' .. agent_type, 0, line .. '|' .. key)
  -- Where it can't wait it goes on as an agent that is ready: a worker that knows its message may find it there.
  if is_unusable('newer:' .. agent_type) then return make_ready(agent_type, key) end
  call('HSET', P .. 'busy:' .. agent_type, key, '')
  if is_known_to_any(turn, agent_type, line) then return ring(agent_type, 1) end
  event('waits for a newer worker', agent_type, key, line)
end
