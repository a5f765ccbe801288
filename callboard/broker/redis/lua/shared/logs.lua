-- The logs of an agent: what of its state grows, and is appended to.
--
-- log:<type>:<key>:<field>  list  items as JSON, oldest first
-- state:<type>:<key>        hash  `l`: `<field> <items> <field> <items> ...`. A list that it does not name is a leftover of a
--                                 state that was deleted by hand. One of another length was changed by hand

local function log_key(agent_type, key, field) return P .. 'log:' .. agent_type .. ':' .. key .. ':' .. field end

-- Fields in their order, and field -> number of items.
local function lengths_of(line)
  local fields, lengths = {}, {}
  for field, length in string.gmatch(line or '', '(%S+) (%d+)') do
    fields[#fields + 1], lengths[field] = field, tonumber(length)
  end
  return fields, lengths
end

-- What is to be done to the logs of an agent, from this argument on: see library.py. Returns it, and the argument behind it.
local function read_logs(agent_type, key, at)
  local changes, count = {}, tonumber(ARGV[at])
  at = at + 1
  for i = 1, count do
    local first, items, field = at + LOG_WIDTH, tonumber(ARGV[at + LOG_COUNT]), ARGV[at]
    changes[i] = { field = field, key = log_key(agent_type, key, field), dropped = tonumber(ARGV[at + LOG_DROPPED]), first = first,
      last = first + items - 1 }
    at = first + items
  end
  return changes, at
end

-- Ends with an error where a log can't be appended to.
local function check_log(change, length)
  local found = must('LLEN', change.key)
  if length and found ~= length then
    error(string.sub(change.key, #P + 1) .. ': it has ' .. found .. ' items where its state says ' .. length, 0)
  end
end

-- Returns how many items it has now.
local function write_log(change, length)
  if not length then
    call('UNLINK', change.key)
  elseif change.dropped > 0 then
    -- guard: what was trimmed is removed
    call('LTRIM', change.key, change.dropped, -1)
  end
  for from = change.first, change.last, CHUNK do
    -- guard: a commit appends to the logs
    call('RPUSH', change.key, unpack(ARGV, from, math.min(from + CHUNK - 1, change.last)))
  end
  return (length or 0) - change.dropped + change.last - change.first + 1
end

-- All of the changes, or an error before anything is written. `line`: what the state says of its logs; returns what it has to
-- say now.
local function write_logs(changes, line)
  local fields, lengths = lengths_of(line)
  -- guard: every log is looked at before one is written
  for _, change in ipairs(changes) do check_log(change, lengths[change.field]) end
  for _, change in ipairs(changes) do
    if not lengths[change.field] then fields[#fields + 1] = change.field end
    lengths[change.field] = write_log(change, lengths[change.field])
  end
  for i, field in ipairs(fields) do fields[i] = field .. ' ' .. lengths[field] end
  return table.concat(fields, ' ')
end

-- The agent begins anew.
local function drop_logs(agent_type, key)
  local state = P .. 'state:' .. agent_type .. ':' .. key
  local fields = lengths_of(call('HGET', state, 'l') or '')
  -- guard: a reset takes the logs away
  for _, field in ipairs(fields) do call('UNLINK', log_key(agent_type, key, field)) end
  call('HDEL', state, 'l')
end
