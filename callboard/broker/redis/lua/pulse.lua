-- A short look at one agent type, at the messages of its agents that wait for an answer, or at some workers: it takes no
-- longer however much there is, since whoever asks goes on in the next look where this one ended. Writes nothing.
--
-- ARGV: 'type', agent type, rank of the first fresh stream, how many of them, cursor of the parked agents
--       'counts', agent type
--       'unread', agent type, stream suffixes
--       'asking', agent type, cursor of the agents
--       'workers', rank of the first worker
-- Returns for a type {server ms, done, dead letters ever, dead letters now, entries read ahead, agents that wait for an answer,
--   fresh streams, next cursor of the parked agents, entries parked behind these, suffix, unread, ...}; unread is -1 where it
--   is not known, see unread.lua
-- Returns for its counts {fields of stats:<type>, dead letters now, agents that are busy, of these: held (-1 where there are too
--   many to count here), put aside, that wait for an answer, ready, suspects, that wait for newer code; agents with something
--   parked, entries read ahead, the first of them or '', streams}
-- Returns for streams {suffix, id of the first unread entry, ...} of those that have one
-- Returns for the messages {next cursor, ref, ...}
-- Returns for workers {server ms, workers, worker, lease deadline (ms), running by type, held by type, ...}: `<type> <number> ...`

local PARKED_AGENTS, WORKERS, MOST_HELD, MOST_BUSY = 200, 50, 500, 500

-- Of a stream whose group is gone the cursor says where it will be made again.
local function unread_in(agent_type, suffix)
  if call('EXISTS', P .. suffix) == 0 then return 0 end
  local group = group_of(agent_type, suffix)
  if not group then
    group = { name = agent_type, ['last-delivered-id'] = call('HGET', P .. 'cursor:' .. agent_type, suffix) or '0-0' }
  end
  return unread_of(suffix, group) or -1
end

-- What a person wrote there in the place of a number counts for nothing.
local function parked_behind(found)
  local sum = 0
  for i = 2, #found, 2 do
    if string.match(found[i], '^%d+$') and #found[i] < 16 then sum = sum + tonumber(found[i]) end
  end
  return sum
end

local function of_type(agent_type)
  local stats = call('HMGET', P .. 'stats:' .. agent_type, 'done', 'dead')
  local parked = call('HSCAN', P .. 'parked:' .. agent_type, ARGV.cursor, 'COUNT', PARKED_AGENTS)
  local fresh, rank = P .. 'fresh:' .. agent_type, tonumber(ARGV.rank)
  local result = { now_as_text(), stats[1] or '0', stats[2] or '0', call('XLEN', P .. 'dead:' .. agent_type),
    call('ZCARD', P .. 'early:' .. agent_type), call('HLEN', P .. 'suspended:' .. agent_type), call('ZCARD', fresh), parked[1],
    parked_behind(parked[2]) }
  for _, suffix in ipairs(call('ZRANGE', fresh, rank, rank + tonumber(ARGV.streams) - 1)) do
    result[#result + 1] = suffix
    result[#result + 1] = unread_in(agent_type, suffix)
  end
  return result
end

local function held_agents(busy)
  local held = 0
  for _, worker in ipairs(call('HVALS', busy)) do
    if worker ~= '' then held = held + 1 end
  end
  return held
end

local function counts(agent_type)
  local function size(command, name) return call(command, P .. name .. ':' .. agent_type) end
  local busy = size('HLEN', 'busy')
  local first = call('ZRANGE', P .. 'early:' .. agent_type, 0, 0)[1]
  return { size('HGETALL', 'stats'), size('XLEN', 'dead'), busy,
    busy > MOST_BUSY and -1 or held_agents(P .. 'busy:' .. agent_type), size('HLEN', 'shelved'), size('HLEN', 'suspended'),
    size('LLEN', 'ready'), size('LLEN', 'suspects'), size('ZCARD', 'newer'), size('HLEN', 'parked'), size('ZCARD', 'early'),
    first and string.match(first, '[^ ]*$') or '', size('SCARD', 'streams') }
end

-- Most of what is fresh was read to its end since: it may have come by a look at all streams, see freshen(). Of these nothing
-- is read here, neither is it counted how much there is.
local function unread(agent_type)
  local suffixes, result = { unpack(ARGV, SUFFIXES_AT) }, {}
  local cursors = bulk_get(P .. 'cursor:' .. agent_type, suffixes)
  for i = 1, #suffixes do
    local found = redis.pcall('XRANGE', P .. suffixes[i], '(' .. (cursors[i] or '0-0'), '+', 'COUNT', 1)
    local first = not failure(found) and found[1]
    if first then
      local n = #result
      result[n + 1], result[n + 2] = suffixes[i], first[1]
    end
  end
  return result
end

-- The message of a handler that waits is the first that is parked behind its agent.
local function asking(agent_type)
  local found = call('HSCAN', P .. 'suspended:' .. agent_type, ARGV.agents, 'COUNT', PARKED_AGENTS)
  local result = { found[1] }
  for i = 1, #found[2], 2 do
    result[#result + 1] = call('LINDEX', P .. 'wait:' .. agent_type .. ':' .. found[2][i], 0) or nil
  end
  return result
end

-- What a worker holds, by type; a request to an agent that waits is no entry of a stream that groups read.
local function held_by_type(worker, types, held)
  if held == 0 then return '' end
  if held > MOST_HELD then return (string.match(types or '', '^%S+') or '') .. ' ' .. text(held) end
  local numbers, words_ = {}, {}
  for _, field in ipairs(call('HKEYS', P .. 'own:' .. worker)) do
    local agent_type, ref = split_own(field)
    if ref ~= '' and string.sub(ref, 1, 7) ~= 'nested:' then numbers[agent_type] = (numbers[agent_type] or 0) + 1 end
  end
  for agent_type, number in pairs(numbers) do words_[#words_ + 1] = agent_type .. ' ' .. text(number) end
  return table.concat(words_, ' ')
end

-- So many that what they hold can be looked at in a short call.
local function of_workers()
  local first, looked_at = tonumber(ARGV.first), 0
  local result = { now_as_text(), call('ZCARD', P .. 'workers') }
  local leases = call('ZRANGE', P .. 'workers', first, first + WORKERS - 1, 'WITHSCORES')
  for i = 1, #leases, 2 do
    local held = call('HLEN', P .. 'own:' .. leases[i])
    looked_at = looked_at + math.min(held, MOST_HELD)
    if i > 1 and looked_at > MOST_HELD then break end
    local said = call('HMGET', P .. 'worker:' .. leases[i], 'runs', 'types')
    local n = #result
    result[n + 1], result[n + 2] = leases[i], text(tonumber(leases[i + 1]))
    result[n + 3], result[n + 4] = said[1] or '', held_by_type(leases[i], said[2], held)
  end
  return result
end

local LOOKS = { type = of_type, counts = counts, unread = unread, asking = asking }

local function pulse()
  this.countable = SHORT
  if ARGV.what == 'workers' then return of_workers() end
  return LOOKS[ARGV.what](ARGV.type)
end

register('pulse', pulse)
