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
  for agent_type in string.gmatch(ARGV.types, '%S+') do
    -- guard: no worker joins with a type that is being renamed
    local refused = changing.refusal(agent_type)
    if refused then return refused end
  end
  local number = next_token()
  -- A server that lost a tail has forgotten numbers that were given.
  local before = tonumber(ARGV.highest or 0)
  -- guard: a process gets no number twice
  if number <= before then
    number = before + 1
    call('SET', P .. 'epoch', text(number))
  end
  local worker = ARGV.name .. ':' .. text(number)
  local lease = tonumber(ARGV.lease)
  -- Others whose leases ended may be alive, and have only been kept from beating: this one must not hide the gap.
  -- guard: a gap is seen by who joins
  if call('EXISTS', P .. 'workers') == 1 then sign_of_life(lease) else call('HSET', P .. 'beats', 'last', now_as_text()) end
  call('HSETNX', P .. 'config', 'layout', LAYOUT)
  must('ZADD', P .. 'workers', text(now() + lease), worker)
  call('HSET', P .. 'worker:' .. worker, 'host', ARGV.host, 'pid', ARGV.pid, 'types', ARGV.types, 'started', now_as_text(),
    'accepts', ARGV.accepts, 'call', 0)
  for agent_type in string.gmatch(ARGV.types, '%S+') do freshen(agent_type) end
  remember_accepted(ARGV.accepts)
  event('joined', worker, ARGV.types)
  return { worker, now_as_text() }
end

register('join', join)
