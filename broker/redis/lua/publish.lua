-- Adds a batch of messages to their streams (or to the timers), each once.
--
-- sent:<producer>     string  `<number of the producer's last batch> <its answer>`: a batch that is sent again after a lost
--                             answer adds nothing, and is answered the same
-- call:<id>           hash    a request that may be sent again: who waits for the reply (`to`), the reply once there is one
-- reply:<process>     stream  replies to one process
--
-- ARGV: producer, batch number, dedupe window (ms), max_unclaimed, max_backlog, max_backlog_per_key (0: no limit), count,
--   then for each message ten values:
--   stream suffix, due (ms or 0), idempotency id or '', waiting process or '', id, type, key, from, head, body
--   and at the end two values for each body that points to its bytes: blob, bytes
-- Returns {server ms, topic that is full or '', index, status, index, status, ...} for messages that were not added:
--   'duplicate', 'undeliverable', 'full': too much of its stream or key is not handled yet, or 'unwritable': the key holds something else, or its last possible id was used

local window, deliverable_to, max_backlog, max_per_key -- of one call
local room, counted -- of one call: messages that a stream still takes, and whether they were counted exactly
local FIRST, WIDTH = 8, 10

local function deliverable(suffix)
  if deliverable_to[suffix] == nil then
    local agent_type = string.match(suffix, '^inbox:(.*)$')
    deliverable_to[suffix] = not agent_type or call('HEXISTS', P .. 'types', agent_type) == 1
  end
  return deliverable_to[suffix]
end

-- What a group has not acknowledged. The server does not know the lag after some deletions: then as much is counted as
-- matters.
local function unhandled(suffix, info)
  local group = {}
  for i = 1, #info, 2 do group[info[i]] = info[i + 1] end
  local lag = group.lag
  if not lag then
    local unread = redis.pcall('XRANGE', P .. suffix, '(' .. group['last-delivered-id'], '+', 'COUNT', max_backlog + 1)
    lag = failure(unread) and 0 or #unread -- a publisher may be allowed to add to a topic and not to read it
  end
  return lag + group.pending
end

local function count_room(suffix)
  local groups, most = redis.pcall('XINFO', 'GROUPS', P .. suffix), 0
  if failure(groups) then return max_backlog end
  for i = 1, #groups do most = math.max(most, unhandled(suffix, groups[i])) end
  return max_backlog - most
end

-- The length of a stream is an upper bound of what is unhandled, and quick to know; what is counted is remembered.
local function has_room(suffix)
  room[suffix] = room[suffix] or max_backlog - call('XLEN', P .. suffix)
  if room[suffix] <= 0 and not counted[suffix] then
    room[suffix], counted[suffix] = count_room(suffix), true
  end
  return room[suffix] > 0
end

local function is_full(suffix, key)
  if max_backlog > 0 and not has_room(suffix) then return true end
  if max_per_key > 0 then
    for _, agent_type in ipairs((receivers(suffix))) do
      if tonumber(call('HGET', P .. 'parked:' .. agent_type, key) or 0) >= max_per_key then return true end
    end
  end
  if max_backlog > 0 then room[suffix] = room[suffix] - 1 end
  return false
end

local function publish_one(at)
  local suffix, due, idem, process = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  if not deliverable(suffix) then return 'undeliverable' end
  if idem ~= '' and seen(idem, window) then
    if process ~= '' then wait_again(ARGV[at + 4], process, window) end
    return 'duplicate'
  end
  if (max_backlog > 0 or max_per_key > 0) and due == 0 and is_full(suffix, ARGV[at + 6]) then
    if idem ~= '' then unsee(idem, window) end
    return 'full'
  end
  if try_send(suffix, due, ARGV[at + 4], ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], ARGV[at + 8], ARGV[at + 9]) then
    if idem ~= '' then unsee(idem, window) end
    return 'unwritable'
  end
  if process ~= '' then begin_call(ARGV[at + 4], process, window) end
end

-- The answer of a batch that was carried out before; of one that a later batch has overtaken nobody waits for it.
local function answer_again(batch)
  local result = { text(now()), '' }
  local last, statuses = string.match(call('GET', P .. 'sent:' .. ARGV[1]) or '', '^(%d+) ?(.*)$')
  if not last or tonumber(batch) > tonumber(last) then return nil end
  if tonumber(batch) == tonumber(last) then
    for word in string.gmatch(statuses, '%S+') do result[#result + 1] = word end
  end
  return result
end

local function publish()
  local producer, batch, max_unclaimed, count = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[7])
  window, deliverable_to, room, counted = tonumber(ARGV[3]), {}, {}, {}
  max_backlog, max_per_key = tonumber(ARGV[5]), tonumber(ARGV[6])
  local known = answer_again(batch)
  if known then return known end
  local result = { text(now()), '' }
  local after = FIRST + count * WIDTH
  if #ARGV >= after then
    claims = {}
    for i = after, #ARGV, 2 do claims[ARGV[i]] = ARGV[i + 1] end
  end
  for i = 0, count - 1 do
    local status = publish_one(FIRST + i * WIDTH)
    if status then
      result[#result + 1] = i
      result[#result + 1] = status
    end
  end
  result[2] = announce(max_unclaimed) or ''
  save_clock()
  call('SET', P .. 'sent:' .. producer, batch .. ' ' .. table.concat(result, ' ', 3), 'EX', 3600)
  return result
end

register('publish', publish, true)
