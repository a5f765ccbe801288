-- A worker's heartbeat: extends its lease, reaps those whose lease ended, fires timers, trims what everybody has handled: all
-- of it when the server's memory is full, else what goes beyond `retain`; and takes away large bodies that nothing points to.
--
-- ARGV: worker, lease (ms), retain (entries), max_unclaimed, held, running
-- Returns {'OK', server ms, workers reaped} or {'FENCED'}.

local retain, full -- of one call

local function reap_expired()
  local expired = call('ZRANGEBYSCORE', P .. 'workers', '-inf', text(now() - 1), 'LIMIT', 0, 8)
  for i = 1, #expired do reap(expired[i], true) end
  return #expired
end

local function lowest(a, b) return (not a or sortable(b) < sortable(a)) and b or a end

-- The first id that some group still needs, or nil when no group reads the stream.
local function needed_from(stream)
  local found = redis.pcall('XINFO', 'GROUPS', stream)
  if failure(found) then return nil end
  local bound = nil
  for i = 1, #found do
    local group = {}
    for j = 1, #found[i], 2 do group[found[i][j]] = found[i][j + 1] end
    bound = lowest(bound, group['last-delivered-id'])
    if tonumber(group.pending) > 0 then bound = lowest(bound, call('XPENDING', stream, group.name)[2]) end
  end
  return bound
end

-- One old entry that is still pending must not keep all the newer ones: look at a part of them, one by one.
local SWEEP = 1000
local function sweep(stream, suffix, bound)
  local from = call('HGET', P .. 'config', 'sweep:' .. suffix) or bound
  if sortable(from) < sortable(bound) then from = bound end
  local entries = call('XRANGE', stream, from, '+', 'COUNT', SWEEP)
  if #entries == 0 then return call('HDEL', P .. 'config', 'sweep:' .. suffix) end
  local last = entries[#entries][1]
  local keep, reach = {}, nil
  for _, info in ipairs(call('XINFO', 'GROUPS', stream)) do
    reach = lowest(reach, info[8])
    for _, pending in ipairs(call('XPENDING', stream, info[2], from, last, SWEEP)) do keep[pending[1]] = true end
  end
  local gone = {}
  for i = 1, #entries do
    local id = entries[i][1]
    if not keep[id] and sortable(id) <= sortable(reach) then gone[#gone + 1] = id end
  end
  bulk('XDEL', stream, gone)
  call('HSET', P .. 'config', 'sweep:' .. suffix, #entries == SWEEP and last or bound)
end

-- What is kept to be looked at must not keep publishers out.
local function memory_is_full()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return false end
  local used, limit = string.match(info, 'used_memory:(%d+)'), string.match(info, '[^_]maxmemory:(%d+)')
  return limit and tonumber(limit) > 0 and tonumber(used) >= 0.95 * tonumber(limit)
end

local function trim(suffix)
  local stream = P .. suffix
  local length = call('XLEN', stream)
  if length <= retain + 100 and not full then return end
  local bound = needed_from(stream)
  if not bound then return end
  if full then
    call('XTRIM', stream, 'MINID', '=', bound)
  else
    call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', length - retain)
  end
  if call('XLEN', stream) > 2 * retain + 2000 and call('XRANGE', stream, '-', '+', 'COUNT', 1)[1][1] == bound then
    sweep(stream, suffix, bound)
  end
end

local function look_after(agent_type)
  local streams = call('SMEMBERS', P .. 'streams:' .. agent_type)
  bulk('SADD', P .. 'fresh:' .. agent_type, streams)
  for i = 1, #streams do trim(streams[i]) end
end

-- A commit takes away what it was the last to need; left over is what lost its reader, such as the backlog of a
-- subscription that ended.
local function look_at_claims()
  local due = call('ZRANGEBYSCORE', P .. 'blobs', '-inf', text(now()), 'LIMIT', 0, 20)
  for i = 1, #due do settle_claim(due[i]) end
end

local function beat()
  local worker, lease, max_unclaimed = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
  retain = tonumber(ARGV[3])
  if not call('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end
  call('ZADD', P .. 'workers', text(now() + lease), worker)
  call('HSET', P .. 'worker:' .. worker, 'held', ARGV[5], 'running', ARGV[6])
  local reaped = reap_expired()
  fire_due()
  full = memory_is_full()
  for _, agent_type in ipairs(words(call('HGET', P .. 'worker:' .. worker, 'types') or '')) do look_after(agent_type) end
  look_at_claims()
  announce(max_unclaimed)
  save_clock()
  return { 'OK', text(now()), reaped }
end

register('beat', beat)
