-- Topics that nobody uses any more: one that its name alone made, by a prefix, goes when all of it is handled and nothing came
-- for a while. When something is published to it again it is a new topic, and the prefix makes it known once more.

-- Whether only prefixes brought these agent types to the topic: they will again.
local function comes_by_prefix(topic, types)
  local by_prefix = prefixed(topic)
  for i = 1, #types do
    if not contains(by_prefix, types[i]) then return false end
  end
  return #types > 0
end

-- The server does not always know how much a group has not read, and counts too much after a crash.
local function has_unread_entries(suffix, group)
  local last = call('XREVRANGE', P .. suffix, '+', '-', 'COUNT', 1)[1]
  return last ~= nil and sortable(last[1]) > sortable(group['last-delivered-id'])
end

-- Whether every subscriber has handled everything, and the last of it is older than that.
local function is_over(suffix, types, before)
  local groups = groups_of(suffix) or {}
  if #groups ~= #types then return false end
  for _, group in ipairs(groups) do
    local last = tonumber(string.match(group['last-delivered-id'], '^%d+'))
    -- guard: a topic with unhandled messages is not forgotten
    if last >= before or tonumber(group.pending) > 0 or has_unread_entries(suffix, group) then return false end
  end
  return true
end

-- Forgets the topic of a stream if it is over since `before` (ms).
local function forget_topic(suffix, before)
  local topic = string.match(suffix, '^topic:(.*)$')
  local types = topic and words(call('HGET', P .. 'topics', topic) or '')
  if not topic or not is_over(suffix, types, before) then return end
  -- guard: a topic that was subscribed to by its name is not forgotten
  if not comes_by_prefix(topic, types) or call('HEXISTS', P .. 'paused', 'topic ' .. topic) == 1 then return end
  call('UNLINK', P .. suffix)
  call('HDEL', P .. 'topics', topic)
  call('SREM', P .. 'grown', suffix)
  for i = 1, #types do
    call('SREM', P .. 'streams:' .. types[i], suffix)
    call('ZREM', P .. 'fresh:' .. types[i], suffix)
    call('HDEL', P .. 'cursor:' .. types[i], suffix)
  end
  this.subscribers[suffix] = nil
  event('topic forgotten', topic)
end
