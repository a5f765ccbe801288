-- How much may wait to be handled: in a stream, and behind an agent.

-- Limits come as one text, which is read when it comes for the first time: `<dedupe window, ms> <max_unclaimed> <max_backlog>
-- <max_backlog_per_key>`, of the last two 0 for no limit.
local function new_limits(line)
  local window, max_unclaimed, max_backlog, max_per_key = string.match(line, '^(%d+) (%d+) (%d+) (%d+)$')
  return { window = tonumber(window), max_unclaimed = max_unclaimed, max_backlog = tonumber(max_backlog),
    max_per_key = tonumber(max_per_key), is_limited = tonumber(max_backlog) > 0 or tonumber(max_per_key) > 0 }
end

local limits_of = remembering(new_limits, 100)

-- Where nothing is known: no more than that matters.
local function unread_up_to(suffix, group, most)
  local unread = redis.pcall('XRANGE', P .. suffix, '(' .. group['last-delivered-id'], '+', 'COUNT', most + 1)
  return failure(unread) and 0 or #unread
end

-- What a group has not acknowledged, as far as it matters. The server may count too many as unread: then it is looked at
-- closely. A publisher may be allowed to add to a topic and not to read it: what is not known then is not counted.
local function unhandled(suffix, group, most)
  local lag = tonumber(group.lag or nil)
  if lag and lag + group.pending < most then return lag + group.pending end
  return (unread_of(suffix, group) or lag or unread_up_to(suffix, group, most)) + group.pending
end

local function count_room(suffix, most)
  local behind, ended = 0, leaving(suffix)
  for _, group in ipairs(groups_of(suffix) or {}) do
    -- guard: a type that left keeps nobody waiting
    local count = contains(ended, group.name) and group.pending or unhandled(suffix, group, most)
    behind = math.max(behind, count)
  end
  return most - behind
end

-- The length of a stream is an upper bound of what is unhandled, and quick to know; what is counted is remembered.
local function has_room(batch, suffix)
  local room = batch.room[suffix] or batch.max_backlog - call('XLEN', P .. suffix)
  if room <= 0 and not batch.counted[suffix] then
    room, batch.counted[suffix] = count_room(suffix, batch.max_backlog), true
  end
  batch.room[suffix] = room
  return room > 0
end

local function is_full(batch, suffix, key)
  if batch.max_backlog > 0 and not has_room(batch, suffix) then return true end
  if batch.max_per_key > 0 then
    for _, agent_type in ipairs((receivers(suffix))) do
      if tonumber(call('HGET', P .. 'parked:' .. agent_type, key) or 0) >= batch.max_per_key then return true end
    end
  end
  if batch.max_backlog > 0 then batch.room[suffix] = batch.room[suffix] - 1 end
  return false
end
