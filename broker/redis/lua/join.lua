-- Starts an incarnation of a worker. Its name ends with a number that only rises: the fencing token.
--
-- epoch            counter  source of the tokens
-- workers          zset     worker -> lease deadline, server ms
-- worker:<worker>  hash     see workers.lua
-- beats            hash     see workers.lua
-- newer            hash     see versions.lua: what waits for this worker's version of a message may be taken now
--
-- ARGV: host:pid, lease (ms), types (space separated), host, pid, accepts (`<message> <version> <message> <version> ...`),
--   the highest number that a worker of the process ever had
-- Returns {worker, server ms}.

local function wake_newer(types, known)
  local waiting = call('HGETALL', P .. 'newer')
  for i = 1, #waiting, 2 do
    local agent_type, key = string.match(waiting[i], '^(%S+) (.*)$')
    if contains(types, agent_type) and knows(known, waiting[i + 1])
      and call('HGET', P .. 'busy:' .. agent_type, key) == '' then
      make_ready(agent_type, key)
    end
  end
end

local function join()
  -- guard: fencing tokens only rise
  local number = call('INCR', P .. 'epoch')
  -- A server that lost a tail has forgotten numbers that were given.
  local before = tonumber(ARGV[7] or 0)
  -- guard: a process gets no number twice
  if number <= before then
    number = before + 1
    call('SET', P .. 'epoch', text(number))
  end
  local worker = ARGV[1] .. ':' .. text(number)
  local lease = tonumber(ARGV[2])
  -- Others whose leases ended may be alive, and have only been kept from beating: this one must not hide the gap.
  -- guard: a gap is seen by who joins
  if call('EXISTS', P .. 'workers') == 1 then sign_of_life(lease) else call('HSET', P .. 'beats', 'last', text(now())) end
  call('ZADD', P .. 'workers', text(now() + lease), worker)
  call('HSET', P .. 'worker:' .. worker, 'host', ARGV[4], 'pid', ARGV[5], 'types', ARGV[3], 'started', text(now()),
    'accepts', ARGV[6], 'call', 0)
  for agent_type in string.gmatch(ARGV[3], '%S+') do freshen(agent_type) end
  remember_accepted(ARGV[6])
  wake_newer(words(ARGV[3]), versions_of(ARGV[6]))
  event('joined', worker, ARGV[3])
  return { worker, text(now()) }
end

register('join', join)
