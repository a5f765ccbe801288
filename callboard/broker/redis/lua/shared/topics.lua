-- Streams and who reads them: topics, inboxes, consumer groups, bells.
--
-- topics, prefixes   hash  who subscribes
-- streams:<type>     set   streams that the type reads
-- fresh:<type>       zset  those of them that may hold unread entries -> a time (ms) that no unread entry of it is before
-- config             hash  `scan <type>`: where looking at all streams of the type goes on
-- cursor:<type>      hash  suffix -> last id that the group was given
-- leaving            hash  suffix -> types that ended their subscription and have entries of the stream in hand
-- bell:<type>        list  tokens; one wakes one idle worker

-- Consumer groups of a stream as tables, or nil and why not.
local function groups_of(suffix)
  local found = redis.pcall('XINFO', 'GROUPS', P .. suffix)
  if failure(found) then return nil, failure(found) end
  for i = 1, #found do found[i] = by_name(found[i]) end
  return found
end

local function group_of(agent_type, suffix)
  local groups, wrong = groups_of(suffix)
  for _, group in ipairs(groups or {}) do
    if group.name == agent_type then return group end
  end
  return nil, wrong
end

-- Returns whether there was none.
local function create_group(suffix, agent_type, start)
  local made = redis.pcall('XGROUP', 'CREATE', P .. suffix, agent_type, start, 'MKSTREAM')
  local wrong = failure(made)
  if wrong and not string.find(wrong, 'BUSYGROUP', 1, true) then error(wrong) end
  call('SADD', P .. 'streams:' .. agent_type, suffix)
  -- One that vanishes before it is given anything has to begin here again, not at the first entry.
  if not wrong and start ~= '0' then
    -- guard: where a group begins is remembered
    local begins_at = string.match(start, '^%d+%-%d+$') or group_of(agent_type, suffix)['last-delivered-id']
    call('HSET', P .. 'cursor:' .. agent_type, suffix, begins_at)
  end
  return not wrong
end

-- The agent types that have a prefix of this topic: one lookup per prefix length, however many subscriptions there are.
local function prefixed(topic)
  local candidates = {}
  for length = 0, math.min(#topic, 200) do candidates[length + 1] = string.sub(topic, 1, length) end
  local found = must('HMGET', P .. 'prefixes', unpack(candidates))
  local types = {}
  for i = 1, #candidates do
    for _, agent_type in ipairs(words(found[i] or '')) do
      if not contains(types, agent_type) then types[#types + 1] = agent_type end
    end
  end
  return types
end

-- A topic that is seen for the first time gets the agent types whose prefix subscription fits.
local function admit_topic(topic)
  local types = prefixed(topic)
  -- NX, as it was not there a moment ago: so a publisher needs no right to replace who subscribes to what.
  must('HSETNX', P .. 'topics', topic, table.concat(types, ' '))
  for i = 1, #types do create_group('topic:' .. topic, types[i], '0') end
  return types
end

-- The agent types that subscribe to the topic of a stream; a new topic is made known. Where that can't be known nothing is
-- added: a topic without readers is kept short.
local function subscribers(suffix)
  local types = this.subscribers[suffix]
  if not types then
    local topic = string.sub(suffix, 7)
    local line = must('HGET', P .. 'topics', topic)
    types = line and words(line) or admit_topic(topic)
    this.subscribers[suffix] = types
  end
  return types
end

-- The agent types that get the entries of a stream.
local function receivers(suffix)
  if this.subscribers[suffix] or string.sub(suffix, 1, 6) == 'topic:' then return subscribers(suffix) end
  return { string.match(suffix, '^inbox:(.*)$') }
end

-- The same without making anything known.
local function known_receivers(suffix)
  local topic = string.match(suffix, '^topic:(.*)$')
  if topic then return words(call('HGET', P .. 'topics', topic) or '') end
  return { string.match(suffix, '^inbox:(.*)$') }
end

-- Agent types that do not read the stream any more and have still to handle entries of it: what they have not read is
-- nothing to them, what is pending is.
local function leaving(suffix) return words(call('HGET', P .. 'leaving', suffix) or '') end

-- More than four tokens wake no more than four idle workers: those wake others in their turn.
local function ring(agent_type, times)
  local bell = P .. 'bell:' .. agent_type
  if times > 4 then times = 4 end
  for _ = 1, times - call('LLEN', bell) do call('LPUSH', bell, '1') end
end

-- Streams may hold unread entries: for each the time that none of them is before, and its suffix. With the mode 'NX' a time
-- that is known stays.
local function mark_fresh(agent_type, marks, mode)
  for i = 1, #marks, CHUNK do
    call('ZADD', P .. 'fresh:' .. agent_type, mode, unpack(marks, i, math.min(i + CHUNK - 1, #marks)))
  end
end

-- So many members of a set, and others in the next call: all of them when there are no more than that.
local function some_of(set, place, most)
  if call('SCARD', P .. set) <= most then return call('SMEMBERS', P .. set) end
  local found = call('SSCAN', P .. set, call('HGET', P .. 'config', place) or '0', 'COUNT', most)
  call('HSET', P .. 'config', place, found[1])
  return found[2]
end

local SCANNED = 200 -- streams of a type that are looked at for entries that nobody told of

-- Has streams of a type looked at again, in turn: entries may have been added by hand.
local function freshen(agent_type)
  local suffixes, marks = some_of('streams:' .. agent_type, 'scan ' .. agent_type, SCANNED), {}
  for i = 1, #suffixes do marks[2 * i - 1], marks[2 * i] = '0', suffixes[i] end
  mark_fresh(agent_type, marks, 'NX')
end

-- An entry is about to be added. A new topic gets its groups first, so that they begin before the entry.
local function touch(suffix)
  local touched = this.touched
  local count = touched[suffix]
  if not count and string.sub(suffix, 1, 6) == 'topic:' and #subscribers(suffix) == 0 then
    -- guard: a topic without readers keeps what is still in hand
    if call('HEXISTS', P .. 'leaving', suffix) == 0 then this.unclaimed[suffix] = true end
  end
  touched[suffix] = (count or 0) + 1
end

-- Tells an agent type that so many entries were added to its streams: for each the time that none of them is before, and its suffix.
local function tell(agent_type, marks, count)
  -- guard: a stream with new entries is remembered
  mark_fresh(agent_type, marks, 'NX')
  ring(agent_type, count)
end

-- Tells the readers of every stream that was added to; a topic without readers is kept within `max_unclaimed`, by beats
-- while some type that left has still to handle entries of it.
-- One command for all streams of a type: a batch may touch a thousand topics.
local function announce(max_unclaimed)
  local full, fresh, added = nil, {}, {}
  for suffix, count in pairs(this.touched) do
    local types = receivers(suffix)
    for i = 1, count > 0 and #types or 0 do
      local agent_type = types[i]
      local marks = fresh[agent_type]
      if marks then
        local n = #marks
        marks[n + 1], marks[n + 2] = marks[1], suffix
        added[agent_type] = added[agent_type] + count
      else
        fresh[agent_type], added[agent_type] = { now_as_text(), suffix }, count
      end
    end
    if #types == 0 and string.sub(suffix, 1, 6) == 'topic:' and call('XLEN', P .. suffix) >= tonumber(max_unclaimed) then
      full = string.sub(suffix, 7)
    end
  end
  for agent_type, marks in pairs(fresh) do tell(agent_type, marks, added[agent_type]) end
  this.touched = {}
  return full
end
