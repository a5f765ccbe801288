-- Streams that a beat looks at: what all groups have handled goes, and groups and large bodies that nobody needs.
--
-- grown   set   streams that were read from since a beat looked at them
-- config  hash  `leaving`: where the look at groups that are to go goes on

-- What is kept to be looked at must not keep publishers out.
local function memory_is_full()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return false end
  local used, limit = string.match(info, 'used_memory:(%d+)'), string.match(info, '[^_]maxmemory:(%d+)')
  return limit and tonumber(limit) > 0 and tonumber(used) >= 0.95 * tonumber(limit)
end

local TRIMMED = 100000 -- entries that go in one beat

-- Returns whether the stream is longer than it should be.
local function trim(tidy, suffix)
  local stream, retain = P .. suffix, tidy.retain
  local length = call('XLEN', stream)
  if length <= retain + 100 and not tidy.full then return false end
  -- guard: a stream is not trimmed while its group adopts what is pending
  if tidy.adopted[suffix] then return true end
  local groups = needing_groups(suffix)
  local bound = needed_from(groups, suffix)
  if not bound then return false end
  if tidy.full and length <= TRIMMED then
    call('XTRIM', stream, 'MINID', '=', bound)
  else
    call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', math.min(length - retain, TRIMMED))
  end
  length = call('XLEN', stream)
  local most = spare(suffix, length, groups) - retain
  if most > 1000 and sweep(tidy, groups, suffix, most) then tidy.more = true end
  return length > retain + 100
end

-- A server that was not started again since goes on to count right: a stream is looked at now and then. One with a backlog,
-- whose ends say nothing, is looked at again sooner.
local RIGHT_FOR, UNKNOWN_FOR, MOST_LOOKED_AT = 60000, 5000, 1000
local looked_at, looked_at_n = {}, 0 -- stream -> until when it is passed over

local function mend_counts(suffix)
  local stream, is_right = P .. suffix, true
  if (looked_at[stream] or 0) > now() then return end
  for _, group in ipairs(groups_of(suffix) or {}) do is_right = mend_count(suffix, group) and is_right end
  if looked_at_n >= MOST_LOOKED_AT then looked_at, looked_at_n = {}, 0 end
  if not looked_at[stream] then looked_at_n = looked_at_n + 1 end
  looked_at[stream] = now() + (is_right and RIGHT_FOR or UNKNOWN_FOR)
end

local STREAMS = 50 -- that a beat looks at, besides those that were read from

-- Which streams were read from is known; all the others are looked at in turn.
local function look_at_streams(tidy, types)
  local back = {}
  for _, suffix in ipairs(call('SPOP', P .. 'grown', STREAMS)) do
    mend_counts(suffix)
    if trim(tidy, suffix) then back[#back + 1] = suffix end
  end
  bulk('SADD', P .. 'grown', back)
  for _, agent_type in ipairs(types) do
    freshen(agent_type)
    if tidy.streams > 0 then
      local streams = some_of('streams:' .. agent_type, 'trim ' .. agent_type, STREAMS)
      for i = 1, #streams do
        mend_counts(streams[i])
        if not trim(tidy, streams[i]) and tidy.forget > 0 and not tidy.adopted[streams[i]] then
          forget_topic(streams[i], now() - tidy.forget)
        end
      end
      tidy.streams = tidy.streams - #streams
    end
  end
end

-- A topic that only types that left have entries of: what nobody has subscribed to is kept within `max_unclaimed`, as far as
-- it is newer than what is in hand.
local function trim_unclaimed(suffix, max_unclaimed)
  if #known_receivers(suffix) > 0 then return end
  local bound = needed_from(needing_groups(suffix), suffix)
  if not bound then return end
  local too_many = call('XLEN', P .. suffix) - max_unclaimed
  if too_many > 0 then call('XTRIM', P .. suffix, 'MINID', '~', bound, 'LIMIT', too_many) end
end

-- The group of a type that left: it goes when nothing is pending any more; one that vanished before is made again.
local function see_off(agent_type, suffix)
  if end_group(agent_type, suffix) then
    -- guard: a group that went is not missed
    stop_leaving(agent_type, suffix)
  elseif not group_of(agent_type, suffix) then
    mend_group(agent_type, suffix)
    call('SREM', P .. 'streams:' .. agent_type, suffix)
  end
end

-- Groups whose type ended its subscription go when all that it has in hand is handled: a few of them in each beat.
local LEAVING = 50
local function look_at_leaving(max_unclaimed)
  if call('EXISTS', P .. 'leaving') == 0 then return end
  local found = call('HSCAN', P .. 'leaving', call('HGET', P .. 'config', 'leaving') or 0, 'COUNT', LEAVING)
  call('HSET', P .. 'config', 'leaving', found[1])
  for i = 1, #found[2], 2 do
    local suffix = found[2][i]
    for _, agent_type in ipairs(words(found[2][i + 1])) do see_off(agent_type, suffix) end
    trim_unclaimed(suffix, max_unclaimed)
  end
end

-- A commit takes away what it was the last to need; left over is what lost its reader, such as the backlog of a
-- subscription that ended.
local function look_at_claims()
  local due = call('ZRANGEBYSCORE', P .. 'blobs', '-inf', now_as_text(), 'LIMIT', 0, 20)
  for i = 1, #due do settle_claim(due[i]) end
end
