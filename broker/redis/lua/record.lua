-- Keeps a result of ctx.once until its message is committed, at most for the dedupe window. The first one stays: a worker
-- that was paused past its lease must not replace what the next one has used meanwhile.
--
-- once:<type>:<message>  hash  `.<name>` -> result
--
-- ARGV: agent type, message id, name, result, dedupe window (ms)
-- Returns the result that is kept.

local function record()
  local key = P .. 'once:' .. ARGV[1] .. ':' .. ARGV[2]
  local is_first = call('HSETNX', key, '.' .. ARGV[3], ARGV[4]) == 1
  call('PEXPIRE', key, ARGV[5])
  return is_first and ARGV[4] or call('HGET', key, '.' .. ARGV[3])
end

register('record', record)
