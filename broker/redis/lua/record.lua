-- Keeps a result of ctx.once until its message is committed, at most for the dedupe window.
--
-- once:<type>:<message>  hash  `.<name>` -> result, see common.lua
--
-- ARGV: agent type, message id, name, result, dedupe window (ms)
-- Returns 1.

local function record()
  local key = P .. 'once:' .. ARGV[1] .. ':' .. ARGV[2]
  call('HSET', key, '.' .. ARGV[3], ARGV[4])
  return call('PEXPIRE', key, ARGV[5])
end

register('record', record)
