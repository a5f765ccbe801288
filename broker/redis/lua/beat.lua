-- A worker's beat: extends its lease, reaps workers whose lease ended, fires timers, trims what all groups have handled: all
-- of it when the server's memory is full, else what goes beyond `retain`; and takes away large bodies that nothing points to.
--
-- workers, worker:<worker>   see workers.lua
-- config                     hash  `sweep:<suffix>`: where the sweep of a stream goes on
-- grown                      set   streams that were read from since a beat looked at them
--
-- ARGV: worker, lease (ms), retain (entries), max_unclaimed, held, running, forget_topics_after (ms, 0: never)
-- Returns {'OK', server ms, workers reaped, 1 when there is more to do soon} or {'FENCED'}.

local MOST_RETURNED = 400 -- entries, for another worker to be reaped

local function reap_expired()
  local returned = 0
  -- guard: a beat reaps nobody else
  local expired = call('ZRANGEBYSCORE', P .. 'workers', '-inf', text(now() - 1), 'LIMIT', 0, 8)
  -- guard: a beat reaps whose lease ended
  for i = 1, #expired do
    -- What many workers held is given back in several beats.
    if i > 1 and returned >= MOST_RETURNED then return i - 1, true end
    returned = returned + call('HLEN', P .. 'own:' .. expired[i])
    reap(expired[i], true)
  end
  return #expired, #expired == 8
end

local function lowest(a, b)
  -- guard: trimming spares what the slowest group has not read
  return (not a or sortable(b) < sortable(a)) and b or a
end

-- The first id that some group still needs, or nil when no group reads the stream.
local function needed_from(suffix)
  local bound = nil
  for _, group in ipairs(groups_of(suffix) or {}) do
    bound = lowest(bound, group['last-delivered-id'])
    -- guard: trimming spares what is pending
    if tonumber(group.pending) > 0 then bound = lowest(bound, call('XPENDING', P .. suffix, group.name)[2]) end
  end
  return bound
end

-- How many handled entries there are at least that nobody needs.
local function spare(length, groups)
  local unread, pending = 0, 0
  for _, group in ipairs(groups) do
    unread, pending = math.max(unread, tonumber(group.lag or 0)), pending + tonumber(group.pending)
  end
  return length - unread - pending
end

-- One old entry that is still pending must not keep all the newer ones: look at them one by one, so many in a beat.
local SWEEP, PAGE, MOST_BYTES = 2000, 100, 4000000

local function read_page(tidy, stream, from)
  local entries = call('XRANGE', stream, from, '+', 'COUNT', PAGE)
  tidy.entries = tidy.entries - PAGE
  for i = 1, #entries do
    for j = 1, #entries[i][2] do tidy.bytes = tidy.bytes - #entries[i][2][j] end
  end
  return entries
end

local function sweep_page(stream, entries, groups, most)
  local keep, reach, last, gone = {}, nil, entries[#entries][1], {}
  for _, group in ipairs(groups) do
    reach = lowest(reach, group['last-delivered-id'])
    for _, pending in ipairs(call('XPENDING', stream, group.name, entries[1][1], last, PAGE)) do keep[pending[1]] = true end
  end
  for i = 1, #entries do
    local id = entries[i][1]
    -- guard: the sweep spares what is pending
    if not keep[id] and sortable(id) <= sortable(reach) and #gone < most then gone[#gone + 1] = id end
  end
  bulk('XDEL', stream, gone)
  return #gone
end

-- `most` handled entries may go. Returns whether the sweep goes on with the next beat.
local function sweep(tidy, suffix, most)
  local stream, place = P .. suffix, 'sweep:' .. suffix
  local from = call('HGET', P .. 'config', place) or '-'
  local groups = groups_of(suffix)
  while tidy.entries > 0 and tidy.bytes > 0 and most > 0 do
    local entries = read_page(tidy, stream, from)
    if #entries == 0 then break end
    most = most - sweep_page(stream, entries, groups, most)
    from = '(' .. entries[#entries][1]
    if #entries < PAGE then
      call('HDEL', P .. 'config', place)
      return false
    end
  end
  call('HSET', P .. 'config', place, from)
  return most > 0
end

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
  local bound = needed_from(suffix)
  if not bound then return false end
  if tidy.full and length <= TRIMMED then
    call('XTRIM', stream, 'MINID', '=', bound)
  else
    call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', math.min(length - retain, TRIMMED))
  end
  length = call('XLEN', stream)
  local most = spare(length, groups_of(suffix)) - retain
  if most > 1000 and sweep(tidy, suffix, most) then tidy.more = true end
  return length > retain + 100
end

local STREAMS = 50 -- that a beat looks at, besides those that were read from

-- Which streams were read from is known; all the others are looked at in turn.
local function look_at_streams(tidy, types)
  local back = {}
  for _, suffix in ipairs(call('SPOP', P .. 'grown', STREAMS)) do
    if trim(tidy, suffix) then back[#back + 1] = suffix end
  end
  bulk('SADD', P .. 'grown', back)
  for _, agent_type in ipairs(types) do
    freshen(agent_type)
    if tidy.streams > 0 then
      local streams = some_of('streams:' .. agent_type, 'trim ' .. agent_type, STREAMS)
      for i = 1, #streams do
        if not trim(tidy, streams[i]) and tidy.forget > 0 and not tidy.adopted[streams[i]] then
          forget_topic(streams[i], now() - tidy.forget)
        end
      end
      tidy.streams = tidy.streams - #streams
    end
  end
end

-- A commit takes away what it was the last to need; left over is what lost its reader, such as the backlog of a
-- subscription that ended.
local function look_at_claims()
  local due = call('ZRANGEBYSCORE', P .. 'blobs', '-inf', text(now()), 'LIMIT', 0, 20)
  for i = 1, #due do settle_claim(due[i]) end
end

local function beat()
  local worker, lease, retain, max_unclaimed = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
  -- guard: a beat does not bring back a reaped worker
  if not call('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end
  -- guard: a beat renews the lease
  call('ZADD', P .. 'workers', text(now() + lease), worker)
  call('HSET', P .. 'worker:' .. worker, 'held', ARGV[5], 'running', ARGV[6])
  local reaped, more = reap_expired()
  fire_due()
  local left = do_chores()
  local tidy = { retain = retain, full = memory_is_full(), entries = SWEEP, bytes = MOST_BYTES, streams = 4 * STREAMS,
    adopted = being_adopted(), forget = tonumber(ARGV[7] or 0) }
  look_at_streams(tidy, words(call('HGET', P .. 'worker:' .. worker, 'types') or ''))
  look_at_claims()
  announce(max_unclaimed)
  save_clock()
  return { 'OK', text(now()), reaped, (more or left or tidy.more) and 1 or 0 }
end

register('beat', beat)
