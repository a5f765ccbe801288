-- Starts an incarnation of a worker. Its name ends with a number that only rises: the fencing token.
--
-- epoch            counter  source of the tokens
-- workers          zset     worker -> lease deadline, server ms
-- worker:<worker>  hash     see workers.lua
--
-- ARGV: host:pid, lease (ms), types (space separated), host, pid, accepts (`<message> <version> <message> <version> ...`)
-- Returns {worker, server ms}.

-- The next token. A counter that was written over by hand goes on from the time, which no count of joins has reached.
local function next_token()
  -- guard: fencing tokens only rise
  local number = call('INCR', P .. 'epoch')
  if not is_unusable('epoch') then return number end
  call('SET', P .. 'epoch', text(now()))
  return now()
end

local function join()
  local worker = ARGV[1] .. ':' .. text(next_token())
  must('ZADD', P .. 'workers', text(now() + tonumber(ARGV[2])), worker)
  call('HSET', P .. 'worker:' .. worker, 'host', ARGV[4], 'pid', ARGV[5], 'types', ARGV[3], 'started', text(now()),
    'accepts', ARGV[6], 'call', 0)
  for agent_type in string.gmatch(ARGV[3], '%S+') do freshen(agent_type) end
  remember_accepted(ARGV[6])
  event('joined', worker, ARGV[3])
  return { worker, text(now()) }
end

register('join', join)
