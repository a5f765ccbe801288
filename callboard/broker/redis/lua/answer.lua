-- The end of a nested request, see nest.lua: its reply, and whether another run of the activation has to run it again.
-- What it changed is committed with the activation, by turn/commit.lua.
--
-- once:<type>:<message>   hash    `!<entry>`: 'ok' or 'failed', how the nested request ended
--
-- ARGV: worker, what it holds of the activation (see workers.lua), type and message of it, entry, 'ok' or 'failed',
--   dedupe window (ms), process, id, type, from, head, body of the reply, and when the body points to its bytes: blob, bytes
-- Returns 'sent', 'late' (the request is over), 'again' (it was answered before) or 'FENCED'.

local function answer()
  local agent_type, message, entry, ending, id = ARGV.type, ARGV.message, ARGV.entry, ARGV.ending, ARGV.id
  if is_fenced(ARGV.worker, ARGV.holds) then return 'FENCED' end
  local once, record = P .. 'once:' .. agent_type .. ':' .. message, P .. 'call:' .. id
  call('HSET', once, '!' .. entry, ending)
  keep_at_least(once, ARGV.window)
  local known = call('HMGET', record, 'to', 'id')
  if not known[1] then return 'late' end
  if known[2] then return 'again' end
  if ARGV.blob then this.claims = { [ARGV.blob] = ARGV.bytes } end
  reply_to_call(ARGV.process, id, id, ARGV.kind, ARGV.from, ARGV.head, ARGV.body)
  return 'sent'
end

register('answer', answer)
