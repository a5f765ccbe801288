-- The server's time, and the clock of a namespace: entry ids that rise over all its streams, so that entries of several
-- streams have one order.
--
-- clock  string  the last id given, `<ms>-<n>`

local now_ms, now_text -- the server's time, once it was asked for in a call
local id_ms, id_n, id_head -- the last id given, once it was read in a call; what all ids of this millisecond begin with

local function reset_clock() now_ms, now_text, id_ms, id_n, id_head = nil, nil, nil, nil, nil end

-- The server's time, ms: the same from the first to the last line of a call.
local function now()
  if not now_ms then
    local t = redis.call('TIME')
    now_ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
    now_text = text(now_ms)
  end
  return now_ms
end

local function read_clock()
  local last = call('GET', P .. 'clock')
  local ms, n = string.match(last or '', '^(%d+)%-(%d+)$')
  id_ms, id_n = tonumber(ms or 0), tonumber(n or 0)
end

-- The server's time may go back, and a replica that took over may be behind: ids rise all the same.
local function next_id()
  if not id_ms then read_clock() end
  if now() > id_ms then
    id_ms, id_n, id_head = now_ms, 0, nil
  else
    id_n = id_n + 1
  end
  id_head = id_head or text(id_ms) .. '-'
  return id_head .. id_n
end

-- A stream has a higher last id than the clock: ids go on above it.
local function step_over(last)
  local ms, n = string.match(last, '^(%d+)%-(%d+)$')
  id_ms, id_n, id_head = tonumber(ms), tonumber(n), nil
end

local function save_clock()
  -- guard: ids rise over all streams
  if id_ms then call('SET', P .. 'clock', text(id_ms) .. '-' .. text(id_n)) end
end

-- An entry id as text that compares like the id.
local function sortable(id)
  local ms, n = string.match(id, '^(%d+)%-(%d+)$')
  return string.rep('0', 16 - #ms) .. ms .. '-' .. string.rep('0', 20 - #n) .. n
end
