-- A worker's beat: extends its lease, reaps workers whose lease ended, fires timers, trims what all groups have handled: all
-- of it when the server's memory is full, else what goes beyond `retain`; and takes away large bodies that nothing points to.
--
-- workers, worker:<worker>, beats  see workers.lua
-- config                           hash  `sweep:<suffix>`: where the sweep of a stream goes on; `leaving`: where the look
--                                        at groups that are to go goes on
-- grown                            set   streams that were read from since a beat looked at them
--
-- ARGV: worker, lease (ms), retain (entries), max_unclaimed, held, running, number of its last call that was answered,
--   forget_topics_after (ms, 0: never), running by agent type (`<type> <n> <type> <n> ...`), what blocks its event loop, or ''
-- Returns {'OK', server ms, workers reaped, 1 when there is more to do soon}, or {'FENCED'} as in turn/turn.lua.

local AT_ONCE, MOST_RETURNED = 8, 400 -- workers that are reaped in one beat; entries, for one of another process

-- What many workers held is given back in several beats; those of one process go together, see reap_dead().
local function as_many_as_fit(workers)
  local list, processes, held = {}, {}, 0
  for i = 1, #workers do
    local process = process_of(workers[i])
    held = held + call('HLEN', P .. 'own:' .. workers[i])
    if i > 1 and held > MOST_RETURNED and not processes[process] then return list end
    list[i], processes[process] = workers[i], true
  end
  return list
end

local function reap_expired(lease, before)
  -- guard: a beat reaps nobody else
  local expired = call('ZRANGEBYSCORE', P .. 'workers', '-inf', '(' .. text(before), 'LIMIT', 0, AT_ONCE)
  if #expired == 0 then return 0, false end
  -- Another worker of the same process may have beaten a little later: it has died with it, unless it goes on beating.
  local silent = call('ZRANGEBYSCORE', P .. 'workers', '-inf', text(now() + lease / 2))
  -- guard: a beat reaps whose lease ended
  local fitting = as_many_as_fit(expired)
  reap_dead(fitting, silent)
  return #fitting, #fitting < #expired or #expired == AT_ONCE
end

local function lowest(a, b)
  -- guard: trimming spares what the slowest group has not read
  return (not a or sortable(b) < sortable(a)) and b or a
end

local LAST = '18446744073709551615-18446744073709551615' -- the last id that there can be

-- The groups of a stream, as far as they need its entries: one of a type that left needs no more than what is pending. Nil
-- while a group is missing that has to be there: nobody knows what is pending in it until a reader makes it again.
local function needing_groups(suffix)
  local groups, ended = groups_of(suffix), leaving(suffix)
  local present = {}
  for _, group in ipairs(groups or {}) do
    present[group.name] = true
    -- guard: a type that left does not keep what it never reads
    if contains(ended, group.name) then group['last-delivered-id'] = LAST end
  end
  for _, types in ipairs({ known_receivers(suffix), ended }) do
    for _, agent_type in ipairs(types) do
      -- guard: nothing is trimmed while a group is missing
      if not present[agent_type] then return nil end
    end
  end
  return groups
end

-- The first id that some group still needs, or nil when that is not known, or no group reads the stream.
local function needed_from(groups, suffix)
  local bound = nil
  for _, group in ipairs(groups or {}) do
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
    if group['last-delivered-id'] ~= LAST then unread = math.max(unread, tonumber(group.lag or 0)) end
    pending = pending + tonumber(group.pending)
  end
  return length - unread - pending
end

-- One old entry that is still pending must not keep all the newer ones: look at them one by one, so many in a beat.
local SWEEP, PAGE, MOST_BYTES = 1500, 100, 4000000

local function read_page(tidy, stream, from)
  local entries = call('XRANGE', stream, from, '+', 'COUNT', PAGE)
  tidy.entries = tidy.entries - PAGE
  for i = 1, #entries do
    for j = 1, #entries[i][2] do tidy.bytes = tidy.bytes - #entries[i][2][j] end
  end
  return entries
end

-- Marks what a group has pending between two ids; ids of entries that were deleted by hand count as well, so that there
-- may be more of them than entries.
local function mark_pending(keep, stream, group, from, last)
  repeat
    local found = call('XPENDING', stream, group, from, last, PAGE)
    for _, pending in ipairs(found) do keep[pending[1]] = true end
    from = #found > 0 and '(' .. found[#found][1]
  until #found < PAGE
end

local function sweep_page(stream, entries, groups, most)
  local keep, reach, last, gone = {}, nil, entries[#entries][1], {}
  for _, group in ipairs(groups) do
    reach = lowest(reach, group['last-delivered-id'])
    mark_pending(keep, stream, group.name, entries[1][1], last)
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
local function sweep(tidy, groups, suffix, most)
  local stream, place = P .. suffix, 'sweep:' .. suffix
  local from = string.match(call('HGET', P .. 'config', place) or '', '^%(%d+%-%d+$') or '-'
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
  local groups = needing_groups(suffix)
  local bound = needed_from(groups, suffix)
  if not bound then return false end
  if tidy.full and length <= TRIMMED then
    call('XTRIM', stream, 'MINID', '=', bound)
  else
    call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', math.min(length - retain, TRIMMED))
  end
  length = call('XLEN', stream)
  local most = spare(length, groups) - retain
  if most > 1000 and sweep(tidy, groups, suffix, most) then tidy.more = true end
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

-- A topic that only types that left have entries of: what nobody has subscribed to is kept within `max_unclaimed`, as far as
-- it is newer than what is in hand.
local function trim_unclaimed(suffix, max_unclaimed)
  if #known_receivers(suffix) > 0 then return end
  local bound = needed_from(needing_groups(suffix), suffix)
  if not bound then return end
  local too_many = call('XLEN', P .. suffix) - max_unclaimed
  if too_many > 0 then call('XTRIM', P .. suffix, 'MINID', '~', bound, 'LIMIT', too_many) end
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

local function beat()
  local worker, lease, retain, max_unclaimed = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
  -- guard: a beat does not bring back a reaped worker
  if not must('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end
  -- An idle worker makes no other call, and what it runs may take an hour.
  -- guard: a beat of a worker that knows more than the server is refused
  if is_behind(call('HGET', P .. 'worker:' .. worker, 'call'), ARGV[7]) then return disown(worker, 'the server lost a tail') end
  -- guard: a beat renews the lease
  call('ZADD', P .. 'workers', text(now() + lease), worker)
  note_pulse(worker, ARGV[5], ARGV[6], ARGV[7] or '0', ARGV[9] or '', ARGV[10] or '')
  this.max_unclaimed = ARGV[4]
  local reaped, more = reap_expired(lease, sign_of_life(lease))
  fire_due(next_due())
  local left = do_chores()
  local tidy = { retain = retain, full = memory_is_full(), entries = SWEEP, bytes = MOST_BYTES, streams = 4 * STREAMS,
    adopted = being_adopted(), forget = tonumber(ARGV[8] or 0) }
  look_at_streams(tidy, words(call('HGET', P .. 'worker:' .. worker, 'types') or ''))
  look_at_leaving(max_unclaimed)
  look_at_claims()
  call('ZREMRANGEBYSCORE', P .. 'cancelled', '-inf', text(now() - 1))
  announce(max_unclaimed)
  save_clock()
  return { 'OK', now_as_text(), reaped, (more or left or tidy.more) and 1 or 0 }
end

register('beat', beat)
