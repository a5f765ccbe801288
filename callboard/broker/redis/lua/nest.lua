-- A request to an agent that waits, further up in the same chain of requests, and is declared reentrant: it goes to the
-- activation that waits, not to the inbox, where it would wait for that activation to end.
--
-- nested:<type>:<message>  stream  the requests that came to the activation of that message, in order; goes with its commit
-- call:<request>           hash    the request that the activation waits for; `to` are its processes, also after it moved
-- reply:<process>          stream  the activation's process gets a notice: id of that request, type `nested`
--
-- ARGV: worker of the asker and what it holds (see workers.lua), or '' and '', dedupe window (ms), idempotency id,
--   waiting process, type and message of the activation, request that it waits for,
--   id, type, key, from, head, body of the request, and when the body points to its bytes: blob, bytes
-- Returns 'added', 'duplicate' (it was sent before: the reply comes again), 'gone' (nobody waits for that request any more),
--   or 'FENCED'.

local function nest()
  if is_fenced(ARGV.worker, ARGV.holds) then return 'FENCED' end
  local window, idem, process, agent_type, message, request = tonumber(ARGV.window), ARGV.idempotent, ARGV.process, ARGV.type, ARGV.message, ARGV.request
  local id, body = ARGV.id, ARGV.body
  if seen(idem, window) then
    wait_again(id, process, window)
    return 'duplicate'
  end
  -- An agent that asks itself waits for this very request.
  local to = request == id and process or call('HGET', P .. 'call:' .. request, 'to')
  if not to then
    unsee(idem)
    return 'gone'
  end
  begin_call(id, process, window)
  if ARGV.blob then this.claims = { [ARGV.blob] = ARGV.bytes } end
  local suffix = 'nested:' .. agent_type .. ':' .. message
  local entry = call('XADD', P .. suffix, '*',
    entry_fields(id, ARGV.kind, ARGV.key, ARGV.from, now_as_text(), ARGV.head, body))
  keep_at_least(P .. suffix, window)
  if this.claims then keep_claim(body, suffix .. ' ' .. entry) end
  send_notice(to, request)
  return 'added'
end

register('nest', nest, true)
