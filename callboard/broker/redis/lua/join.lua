-- Starts an incarnation of a worker. Its name ends with a number that only rises: the fencing token.
--
-- epoch            counter  source of the tokens
-- workers          zset     worker -> lease deadline, server ms
-- worker:<worker>  hash     see workers.lua
-- config           hash     see layout.lua
-- beats            hash     see workers.lua
--
-- ARGV: host:pid:token, lease (ms), types (space separated), host, pid, accepts (`<message> <version> <message> <version> ...`),
--   the highest number that a worker of the process ever had
-- Returns {worker, server ms}.

-- The next token. A counter that was written over by hand goes on from the time, which no count of joins has reached.
local function next_token()
  -- guard: fencing tokens only rise
  local number = call('INCR', P .. 'epoch')
  if not is_unusable('epoch') then return number end
  call('SET', P .. 'epoch', now_as_text())
  return now()
end

local function join()
  local number = next_token()
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
  if call('EXISTS', P .. 'workers') == 1 then sign_of_life(lease) else call('HSET', P .. 'beats', 'last', now_as_text()) end
  call('HSETNX', P .. 'config', 'layout', LAYOUT)
  must('ZADD', P .. 'workers', text(now() + lease), worker)
  call('HSET', P .. 'worker:' .. worker, 'host', ARGV[4], 'pid', ARGV[5], 'types', ARGV[3], 'started', now_as_text(),
    'accepts', ARGV[6], 'call', 0)
  for agent_type in string.gmatch(ARGV[3], '%S+') do freshen(agent_type) end
  remember_accepted(ARGV[6])
  event('joined', worker, ARGV[3])
  return { worker, now_as_text() }
end

register('join', join)
