-- A worker's beat: extends its lease, reaps workers whose lease ended, fires timers, trims what all groups have handled: all
-- of it when the server's memory is full, else what goes beyond `retain`; and takes away large bodies that nothing points to.
--
-- workers, worker:<worker>   see workers.lua
-- config                     hash  `sweep:<suffix>`: where the sweep of a stream goes on
--
-- ARGV: worker, lease (ms), retain (entries), max_unclaimed, held, running
-- Returns {'OK', server ms, workers reaped} or {'FENCED'}.

local function reap_expired()
  -- guard: a beat reaps nobody else
  local expired = call('ZRANGEBYSCORE', P .. 'workers', '-inf', text(now() - 1), 'LIMIT', 0, 8)
  -- guard: a beat reaps whose lease ended
  for i = 1, #expired do reap(expired[i], true) end
  return #expired
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

-- One old entry that is still pending must not keep all the newer ones: look at a part of them, one by one.
local SWEEP = 1000
local function sweep(suffix, bound)
  local stream, place = P .. suffix, 'sweep:' .. suffix
  local from = call('HGET', P .. 'config', place) or bound
  if sortable(from) < sortable(bound) then from = bound end
  local entries = call('XRANGE', stream, from, '+', 'COUNT', SWEEP)
  if #entries == 0 then return call('HDEL', P .. 'config', place) end
  local last = entries[#entries][1]
  local keep, reach = {}, nil
  for _, group in ipairs(groups_of(suffix)) do
    reach = lowest(reach, group['last-delivered-id'])
    for _, pending in ipairs(call('XPENDING', stream, group.name, from, last, SWEEP)) do keep[pending[1]] = true end
  end
  local gone = {}
  for i = 1, #entries do
    local id = entries[i][1]
    -- guard: the sweep spares what is pending
    if not keep[id] and sortable(id) <= sortable(reach) then gone[#gone + 1] = id end
  end
  bulk('XDEL', stream, gone)
  call('HSET', P .. 'config', place, #entries == SWEEP and last or bound)
end

-- What is kept to be looked at must not keep publishers out.
local function memory_is_full()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return false end
  local used, limit = string.match(info, 'used_memory:(%d+)'), string.match(info, '[^_]maxmemory:(%d+)')
  return limit and tonumber(limit) > 0 and tonumber(used) >= 0.95 * tonumber(limit)
end

local function trim(suffix, retain, full)
  local stream = P .. suffix
  local length = call('XLEN', stream)
  if length <= retain + 100 and not full then return end
  local bound = needed_from(suffix)
  if not bound then return end
  if full then
    call('XTRIM', stream, 'MINID', '=', bound)
  else
    call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', length - retain)
  end
  if call('XLEN', stream) > 2 * retain + 2000 and call('XRANGE', stream, '-', '+', 'COUNT', 1)[1][1] == bound then
    sweep(suffix, bound)
  end
end

local function look_after(agent_type, retain, full)
  local streams = call('SMEMBERS', P .. 'streams:' .. agent_type)
  bulk('SADD', P .. 'fresh:' .. agent_type, streams)
  for i = 1, #streams do trim(streams[i], retain, full) end
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
  if not must('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end
  -- guard: a beat renews the lease
  call('ZADD', P .. 'workers', text(now() + lease), worker)
  call('HSET', P .. 'worker:' .. worker, 'held', ARGV[5], 'running', ARGV[6])
  local reaped = reap_expired()
  fire_due()
  local full = memory_is_full()
  for _, agent_type in ipairs(words(call('HGET', P .. 'worker:' .. worker, 'types') or '')) do
    look_after(agent_type, retain, full)
  end
  look_at_claims()
  announce(max_unclaimed)
  save_clock()
  return { 'OK', text(now()), reaped }
end

register('beat', beat)
