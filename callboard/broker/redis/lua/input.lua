-- Answers a question, or withdraws it; its handler goes on.
--
-- input:<id>, inputs  see shared/inputs.lua
--
-- ARGV: 'answered' or 'withdrawn', id, answer as JSON or '', by whom
-- Returns {'OK'}; or {status, when (ms), by whom}: it had ended before; or {'unknown'}.

local function settle_input()
  local id = ARGV.id
  local key = P .. 'input:' .. id
  local was_open = call('HGET', key, 'status') == 'open'
  local status = status_of(id)
  if not status then return { 'unknown' } end
  local of = call('HMGET', key, 'type', 'key', 'at', 'by', 'kept')
  -- guard: the first answer wins
  if status == 'open' then end_input(id, ARGV.ending, 'answer', ARGV.answer, 'by', ARGV.by) end
  if was_open then
    -- One whose record was changed by hand may not say who asked: a repair finds who waits for it.
    if of[1] and of[2] then go_on(of[1], of[2]) end
    end_record(id, of[5])
  end
  if status == 'open' then return { 'OK' } end
  return { status, call('HGET', key, 'at'), of[4] or '' }
end

register('input', settle_input)
