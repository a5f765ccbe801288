-- What ctx.once recorded, asked before the effect is made: a worker that lost the message must not make it again.
--
-- once:<type>:<message>  hash  `.<name>` -> result
--
-- ARGV: worker and what it holds (see workers.lua), or '' and '', agent type, message id, name
-- Returns {'OK', result or nil}, or {'FENCED'}.

local function recall()
  if is_fenced(ARGV.worker, ARGV.holds) then return { 'FENCED' } end
  return { 'OK', call('HGET', P .. 'once:' .. ARGV.type .. ':' .. ARGV.message, '.' .. ARGV.name) }
end

register('recall', recall)
