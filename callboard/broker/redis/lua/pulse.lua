-- A short look at one agent type, at the messages of its agents that wait for an answer, or at some workers: it takes no
-- longer however much there is, since whoever asks goes on in the next look where this one ended. Writes nothing.
--
-- ARGV: 'type', agent type, rank of the first fresh stream, how many of them, cursor of the parked agents
--       'asking', agent type, cursor of the agents
--       'workers', rank of the first worker
-- Returns for a type {server ms, done, dead letters ever, dead letters now, entries read ahead, agents that wait for an answer,
--   fresh streams, next cursor of the parked agents, entries parked behind these, suffix, unread, ...}; unread is -1 where it
--   is not known, see unread.lua
-- Returns for the messages {next cursor, ref, ...}
-- Returns for workers {server ms, workers, worker, lease deadline (ms), running by type, held by type, ...}: `<type> <number> ...`

local PARKED_AGENTS, WORKERS, MOST_HELD = 500, 50, 1000

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
local function held_by_type(worker, types)
  local own = P .. 'own:' .. worker
  local held = call('HLEN', own)
  if held == 0 then return '' end
  if held > MOST_HELD then return (string.match(types or '', '^%S+') or '') .. ' ' .. text(held) end
  local counts, words_ = {}, {}
  for _, field in ipairs(call('HKEYS', own)) do
    local agent_type, ref = split_own(field)
    if ref ~= '' and string.sub(ref, 1, 7) ~= 'nested:' then counts[agent_type] = (counts[agent_type] or 0) + 1 end
  end
  for agent_type, count in pairs(counts) do words_[#words_ + 1] = agent_type .. ' ' .. text(count) end
  return table.concat(words_, ' ')
end

local function of_workers()
  local first = tonumber(ARGV.first)
  local result = { now_as_text(), call('ZCARD', P .. 'workers') }
  local leases = call('ZRANGE', P .. 'workers', first, first + WORKERS - 1, 'WITHSCORES')
  for i = 1, #leases, 2 do
    local said = call('HMGET', P .. 'worker:' .. leases[i], 'runs', 'types')
    local n = #result
    result[n + 1], result[n + 2] = leases[i], text(tonumber(leases[i + 1]))
    result[n + 3], result[n + 4] = said[1] or '', held_by_type(leases[i], said[2])
  end
  return result
end

local function pulse()
  if ARGV.what == 'workers' then return of_workers() end
  if ARGV.what == 'asking' then return asking(ARGV.type) end
  return of_type(ARGV.type)
end

register('pulse', pulse)
