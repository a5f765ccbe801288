-- Makes the agent types and subscriptions of an application known, before anything is published. Safe to repeat.
--
-- config              hash    what is fixed for the namespace: shards, layout (see layout.lua)
-- types               hash    agent type -> JSON of its settings
-- topics, prefixes    hash    see topics.lua; accepts: see versions.lua
--
-- ARGV: shards, number of types, then for each: type, settings as JSON,
--   number of subscriptions, then for each: type, 'topic' or 'prefix', name, start ('' default, '0', '$' or an id),
--   and the messages that the process knows (`<message> <version> <message> <version> ...`)
-- Returns {'OK', server ms}, {'MORE', server ms} (the same call goes on with the topics of a prefix) or {'MISMATCH',
--   shards of the namespace}.

local function add_word(key, field, word)
  local types = words(call('HGET', key, field) or '')
  if contains(types, word) then return false end
  types[#types + 1] = word
  call('HSET', key, field, table.concat(types, ' '))
  return true, #types == 1
end

-- Without a start given a type that subscribed before goes on where it was; else the first group of a topic begins at its
-- first entry, a later one at the end. A group that has still to go (see unsubscribe.lua) goes on in any case.
local function subscribe_topic(agent_type, topic, start, since)
  local known = call('HEXISTS', P .. 'topics', topic) == 1
  if not known then subscribers('topic:' .. topic) end
  local added, first = add_word(P .. 'topics', topic, agent_type)
  if not added then return end
  local suffix = 'topic:' .. topic
  -- guard: who subscribes again goes on where it was
  if start == '' then start = call('HGET', P .. 'cursor:' .. agent_type, suffix) end
  local was_leaving = stop_leaving(agent_type, suffix)
  local is_new = create_group(suffix, agent_type, start or (first and '0' or since or '$'))
  -- It vanished before it could go: what the type has in hand is pending again.
  if was_leaving and is_new then adopt(agent_type, suffix, {}) end
  mark_fresh(agent_type, { '0', suffix }, 'CH')
end

local function has_inbox(agent_type)
  local suffix = 'inbox:' .. agent_type
  return call('SISMEMBER', P .. 'streams:' .. agent_type, suffix) == 1 and group_of(agent_type, suffix) ~= nil
end

-- An inbox that lost its group must not begin at its first entry again.
local function open_inbox(agent_type)
  local suffix = 'inbox:' .. agent_type
  local cursor = call('HGET', P .. 'cursor:' .. agent_type, suffix)
  -- guard: an inbox goes on where it was
  local is_new = create_group(suffix, agent_type, cursor or '0')
  if is_new and cursor then adopt(agent_type, suffix, {}) end
end

local TOPICS = 200 -- that are looked at together, when a type subscribes to a prefix

-- The topics that are there when a type subscribes to a prefix: `<type> <prefix>`. Where the topics are many, what is
-- published while they are gone through is later than the id that was the last when it began.
STEPS.subscribe = function(what, place)
  local agent_type, prefix = string.match(what, '^(%S+) (.*)$')
  local cursor, since, start = string.match(place, '^(%d+) (%S+) ?(.*)$')
  -- guard: a prefix that ended brings no more topics
  if not contains(words(call('HGET', P .. 'prefixes', prefix) or ''), agent_type) then return nil end
  local found = call('HSCAN', P .. 'topics', cursor, 'COUNT', TOPICS)
  this.looked_at = (this.looked_at or 0) + 1.5 * #found[2] -- one topic takes as long as three entries
  for i = 1, #found[2], 2 do
    local topic = found[2][i]
    if string.sub(topic, 1, #prefix) == prefix then subscribe_topic(agent_type, topic, start, since) end
  end
  return found[1] ~= '0' and found[1] .. ' ' .. since .. ' ' .. start or nil
end

-- Returns whether topics are left, for another call or the beats.
local function subscribe_prefix(agent_type, prefix, start)
  local what = agent_type .. ' ' .. prefix
  local place = '0 ' .. (call('GET', P .. 'clock') or '0-0') .. ' ' .. start
  if not add_word(P .. 'prefixes', prefix, agent_type) then
    if not call('HGET', P .. 'chores', 'subscribe ' .. what) then return false end
    renew_cursors()
    place = call('HGET', P .. 'chores', 'subscribe ' .. what)
  end
  return take_step('subscribe', what, place)
end

local function declare()
  local read = reader(1)
  local shards = read()
  local fixed = call('HGET', P .. 'config', 'shards')
  if fixed and fixed ~= shards then return { 'MISMATCH', fixed } end
  -- What begins now has no runs that older versions did not list.
  if not fixed then call('HSET', P .. 'config', 'shards', shards, 'layout', LAYOUT, 'runs listed', '1') end
  for _ = 1, tonumber(read()) do
    local agent_type, settings = read(), read()
    -- A type that is being renamed is not declared.
    local refused = changing.refusal(agent_type)
    if refused then return refused end
    -- What is declared already is left as it is: whoever only publishes has no right to change it.
    if call('HGET', P .. 'types', agent_type) ~= settings then call('HSET', P .. 'types', agent_type, settings) end
    if not has_inbox(agent_type) then open_inbox(agent_type) end
  end
  local is_more = false
  for _ = 1, tonumber(read()) do
    local agent_type, kind, name, start = read(), read(), read(), read()
    local refused = changing.refusal(agent_type)
    if refused then return refused end
    if kind == 'prefix' then
      is_more = subscribe_prefix(agent_type, name, start) or is_more
    else
      subscribe_topic(agent_type, name, start)
    end
  end
  remember_accepted(read() or '')
  return { is_more and 'MORE' or 'OK', now_as_text() }
end

register('declare', declare)
