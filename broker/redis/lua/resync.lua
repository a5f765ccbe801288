-- After a lost connection: what the worker holds as the server sees it. Older calls that still arrive are refused.
--
-- ARGV: worker, call number
-- Returns {'OK', deliveries} or {'FENCED'}; deliveries as in step.lua, for each key in order.

local function resync()
  local worker, call_number = ARGV[1], ARGV[2]
  if not call('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end
  call('HSET', P .. 'worker:' .. worker, 'call', call_number)
  local out = {}
  for _, held in ipairs(holdings(worker)) do
    for _, ref in ipairs(held.refs) do
      local suffix, id = split_ref(ref)
      local entry = entry_of(suffix, id)
      local values = entry and entry_values(entry) or { '', '', '', '', '', '', '' }
      values[3] = held.key
      local n = #out
      out[n + 1], out[n + 2], out[n + 3] = held.type, suffix, id
      out[n + 4] = call('HGET', P .. 'tries:' .. held.type, ref) or ''
      for i = 1, 7 do out[n + 4 + i] = values[i] end
    end
  end
  return { 'OK', out }
end

register('resync', resync)
