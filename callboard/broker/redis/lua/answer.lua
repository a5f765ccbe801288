-- The end of a nested request, see nest.lua: its reply, and whether another run of the activation has to run it again.
-- What it changed is committed with the activation, by turn/commit.lua.
--
-- once:<type>:<message>   hash    `!<entry>`: 'ok' or 'failed', how the nested request ended
--
-- ARGV: worker, what it holds of the activation (see workers.lua), type and message of it, entry, 'ok' or 'failed',
--   dedupe window (ms), process, id, type, from, head, body of the reply, and when the body points to its bytes: blob, bytes
-- Returns 'sent', 'late' (the request is over), 'again' (it was answered before) or 'FENCED'.

local function answer()
  local agent_type, message, entry, ending, id = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[9]
  if is_fenced(ARGV[1], ARGV[2]) then return 'FENCED' end
  local once, record = P .. 'once:' .. agent_type .. ':' .. message, P .. 'call:' .. id
  call('HSET', once, '!' .. entry, ending)
  keep_at_least(once, ARGV[7])
  local known = call('HMGET', record, 'to', 'id')
  if not known[1] then return 'late' end
  if known[2] then return 'again' end
  if ARGV[14] then this.claims = { [ARGV[14]] = ARGV[15] } end
  reply_to_call(ARGV[8], id, id, ARGV[10], ARGV[11], ARGV[12], ARGV[13])
  return 'sent'
end

register('answer', answer)
