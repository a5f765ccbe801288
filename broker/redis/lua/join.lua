-- Starts an incarnation of a worker. Its name ends with a number that only rises: the fencing token.
--
-- epoch            counter  source of the tokens
-- workers          zset     worker -> lease deadline, server ms
-- worker:<worker>  hash     host, pid, types, started (ms), call (number of the last turn)
--
-- ARGV: host:pid, lease (ms), types (space separated), host, pid
-- Returns {worker, server ms}.

local function join()
  local worker = ARGV[1] .. ':' .. text(call('INCR', P .. 'epoch'))
  call('ZADD', P .. 'workers', text(now() + tonumber(ARGV[2])), worker)
  call('HSET', P .. 'worker:' .. worker, 'host', ARGV[4], 'pid', ARGV[5], 'types', ARGV[3], 'started', text(now()), 'call', 0)
  for agent_type in string.gmatch(ARGV[3], '%S+') do
    call('SUNIONSTORE', P .. 'fresh:' .. agent_type, P .. 'fresh:' .. agent_type, P .. 'streams:' .. agent_type)
  end
  event('joined', worker, ARGV[3])
  return { worker, text(now()) }
end

register('join', join)
