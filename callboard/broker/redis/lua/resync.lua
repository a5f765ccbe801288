-- After a lost connection: what the worker holds as the server sees it. Older calls that still arrive are refused.
--
-- own:<worker>, worker:<worker>  see workers.lua
--
-- ARGV: worker, number of a turn, number of its last call that was answered
-- Returns {'OK', deliveries} or {'FENCED'}, as in turn/turn.lua; deliveries as in turn/turn.lua, for each agent in order.

local function resync()
  local worker, number = ARGV.worker, ARGV.number
  call('HEXISTS', P .. 'worker:' .. worker, 'call')
  -- guard: resync does not bring back a reaped worker
  if not must('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end
  if not has_own_books(worker) then return end_without_books(worker) end
  -- guard: a worker that asks what it holds, and knows more than the server, begins anew
  if is_behind(call('HGET', P .. 'worker:' .. worker, 'call'), ARGV.answered) then return disown(worker, 'the server lost a tail') end
  -- guard: resync shuts out older turns
  call('HSET', P .. 'worker:' .. worker, 'call', number)
  local out = {}
  for _, held in ipairs(holdings(worker)) do
    for _, ref in ipairs(held.refs) do
      local suffix, id = split_ref(ref)
      local values = values_or_blank(suffix, id)
      values[KEY] = held.key
      local n = #out
      out[n + 1], out[n + 2], out[n + 3] = held.type, suffix, id
      out[n + 4] = call('HGET', P .. 'tries:' .. held.type, ref) or ''
      for i = 1, BODY do out[n + 4 + i] = values[i] end
    end
  end
  return { 'OK', out }
end

register('resync', resync)
