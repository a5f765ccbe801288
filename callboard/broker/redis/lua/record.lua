-- Keeps a result of ctx.once until its message is committed, at most for the dedupe window. The first one stays: another
-- worker may have used it meanwhile.
--
-- once:<type>:<message>  hash  `.<name>` -> result
--
-- ARGV: worker and what it holds (see workers.lua), or '' and '', agent type, message id, name, result, dedupe window (ms)
-- Returns {'OK', the result that is kept}, or {'FENCED'}.

local function record()
  if is_fenced(ARGV.worker, ARGV.holds) then return { 'FENCED' } end
  local key, field, result = P .. 'once:' .. ARGV.type .. ':' .. ARGV.message, '.' .. ARGV.name, ARGV.result
  local is_first = call('HSETNX', key, field, result) == 1
  keep_at_least(key, ARGV.window)
  return { 'OK', is_first and result or call('HGET', key, field) }
end

register('record', record)
