-- The server's time, and the clock of a namespace: entry ids that rise over all its streams, so that entries of several
-- streams have one order.
--
-- clock  string  the last id given, `<ms>-<n>`

local now_ms, now_text -- the server's time, once it was asked for in a call
-- Once an id was given in a call: what the ids of it begin with, the number of the last one, whether they say what time it is.
local id_head, id_n, id_is_now
local last_id -- the last id that this call gave

local function reset_clock() now_ms, now_text, id_head, id_n, id_is_now, last_id = nil, nil, nil, nil, nil, nil end

-- The server's time, ms: the same from the first to the last line of a call.
local function now()
  if not now_ms then
    local t = redis.call('TIME')
    -- Digits put together: to write a number as text takes as long as a command.
    now_text = t[1] .. string.sub('000000' .. t[2], -6, -4)
    now_ms = now_text + 0 -- half of what tonumber() takes
  end
  return now_ms
end

local function now_as_text()
  now()
  return now_text
end

-- The clock goes on from this id, or from now. The server's time may go back, and a replica that took over may be behind: ids
-- rise all the same.
local function set_clock(id)
  local ms, n = string.match(id, '^(%d+)%-(%d+)$')
  local id_ms = (ms or 0) + 0
  if now() > id_ms then
    id_head, id_n, id_is_now = now_text .. '-', -1, true
  else
    id_head, id_n, id_is_now = ms .. '-', n + 0, id_ms == now_ms
  end
end

-- Also whether the id says what time it is.
local function next_id()
  if not id_head then set_clock(call('GET', P .. 'clock') or '') end
  id_n = id_n + 1
  last_id = id_head .. digits(id_n)
  return last_id, id_is_now
end

-- Whether no entry was ever given a higher id, in any stream. What a person added may have one.
local function is_newest(id) return id == (last_id or call('GET', P .. 'clock')) end

-- A stream has a higher last id than the clock: ids go on above it.
local function step_over(last)
  set_clock(last)
  last_id = last
end

local function save_clock()
  -- guard: ids rise over all streams
  if last_id then call('SET', P .. 'clock', last_id) end
end

-- The key stays for at least so long: what belongs to a message that waits for an answer stays for longer, see inputs.lua.
local function keep_at_least(key, ms)
  if call('PTTL', key) < tonumber(ms) then call('PEXPIRE', key, ms) end
end

-- An entry id as text that compares like the id.
local function sortable(id)
  local ms, n = string.match(id, '^(%d+)%-(%d+)$')
  return string.rep('0', 16 - #ms) .. ms .. '-' .. string.rep('0', 20 - #n) .. n
end
