-- Reading new entries of streams. What can't be given to a worker becomes a dead letter on the way.
--
-- fresh:<type>   zset  streams that may hold unread entries, see topics.lua
-- cursor:<type>  hash  suffix -> last id that the group was given

-- MOST_NAME, MOST_SENDER, MOST_HEAD: bytes; they stand in broker/envelope.py and broker/ids.py, where publishers are refused.

local function read_group(turn, agent_type, count, suffixes)
  local arguments = { 'GROUP', agent_type, turn.worker, 'COUNT', digits(count), 'STREAMS' }
  for i = 1, #suffixes do
    arguments[6 + i] = P .. suffixes[i]
    arguments[6 + #suffixes + i] = '>'
  end
  return redis.pcall('XREADGROUP', unpack(arguments))
end

local function group_is_gone(wrong)
  return wrong and (string.find(wrong, 'NOGROUP', 1, true) or string.find(wrong, 'requires the key to exist', 1, true))
end

-- One stream that can't be read must not keep the others from being read.
local function read_one_by_one(turn, agent_type, count, suffixes)
  local all = {}
  for i = 1, #suffixes do
    local got = read_group(turn, agent_type, count, { suffixes[i] })
    if group_is_gone(failure(got)) then
      mend_group(agent_type, suffixes[i], turn.own_new)
      got = read_group(turn, agent_type, count, { suffixes[i] })
    end
    if failure(got) then
      event('unreadable', agent_type, suffixes[i], failure(got))
      -- With it all streams would be read one by one; the next beat, or scan, tries it again.
      call('ZREM', P .. 'fresh:' .. agent_type, suffixes[i])
    elseif got then
      all[#all + 1] = got[1]
    end
  end
  return all
end

local function read_streams(turn, agent_type, count, suffixes)
  local all = {}
  for i = 1, #suffixes, 1000 do
    local part = {}
    for j = i, math.min(i + 999, #suffixes) do part[#part + 1] = suffixes[j] end
    local got = read_group(turn, agent_type, count, part)
    if failure(got) then got = read_one_by_one(turn, agent_type, count, part) end
    for _, stream in ipairs(got or {}) do
      stream.is_cut = #stream[2] >= count
      all[#all + 1] = stream
    end
  end
  return all
end

local PART, ASIDE, ASIDE_BYTES = 16, 200, 1000000 -- entries at a time; entries and bytes that are read until it is enough

-- Adds a part of a stream to what was read of it. Returns the bytes of its bodies.
local function add_part(all, known, stream)
  local whole, bytes = known[stream[1]], 0
  if not whole then
    whole = { stream[1], {} }
    known[stream[1]], all[#all + 1] = whole, whole
  end
  whole.is_cut = stream.is_cut
  for _, entry in ipairs(stream[2]) do
    table.insert(whole[2], entry)
    bytes = bytes + #entry[2][#entry[2]] -- mostly the body
  end
  return bytes
end

-- Streams of paused topics, of each one something. Nothing of it takes a place of the worker, so that more is read than it
-- asks for: what is newer in other streams has to wait until all that is older was read, however much there is. How large
-- the bodies are is known only then, so that little is read at a time.
local function read_paused(turn, agent_type, suffixes)
  local all, known, entries, bytes = {}, {}, 0, 0
  while #suffixes > 0 and entries < ASIDE and bytes < ASIDE_BYTES do
    local streams = read_streams(turn, agent_type, math.max(1, math.floor(PART / #suffixes)), suffixes)
    for _, whole in ipairs(all) do whole.is_cut = false end
    suffixes = {}
    for _, stream in ipairs(streams) do
      bytes, entries = bytes + add_part(all, known, stream), entries + #stream[2]
      if stream.is_cut then suffixes[#suffixes + 1] = string.sub(stream[1], #P + 1) end
    end
  end
  return all
end

local function has_long_name(values)
  return #values[KEY] > MOST_NAME or #values[ID] > MOST_NAME or #values[TYPE] > MOST_NAME or #values[AT] > MOST_NAME
    or #values[FROM] > MOST_SENDER
end

-- The values of an entry that a worker may be given; else nil, and why not.
local function checked_values(max_body, flat)
  local values, wrong = entry_values(flat)
  if not values then return nil, wrong end
  -- guard: an entry that is too large reaches no worker
  if #values[BODY] > max_body then return nil, 'the payload has ' .. #values[BODY] .. ' bytes, the limit is ' .. max_body end
  local together = #values[KEY] + #values[ID] + #values[TYPE] + #values[FROM] + #values[AT]
  -- guard: an entry with a long name reaches no worker
  if together > MOST_NAME and has_long_name(values) then
    return nil, 'the entry has a key, id or type longer than ' .. MOST_NAME .. ' bytes, or such a sender'
  end
  if #values[HEAD] > MOST_HEAD then return nil, 'the entry has a head longer than ' .. MOST_HEAD .. ' bytes' end
  return values
end

-- Everything that was read, as {suffix, id, values}. Also the lowest last id of the streams that returned as much as was
-- asked for: they may hold more, so what lies above it has to wait.
local function gather(turn, agent_type, streams, suffixes)
  local list, cutoff, drained, cursor, max_body, left, read_from = {}, nil, {}, {}, turn.max_body, {}, {}
  for i = 1, #suffixes do drained[P .. suffixes[i]] = suffixes[i] end
  for _, stream in ipairs(streams) do
    local suffix, entries = string.sub(stream[1], #P + 1), stream[2]
    local last = entries[#entries][1]
    cursor[#cursor + 1], read_from[#read_from + 1] = suffix, suffix
    cursor[#cursor + 1] = last
    if stream.is_cut then
      drained[stream[1]] = nil
      left[#left + 1], left[#left + 2] = string.match(last, '^%d+'), suffix
      turn.more = true
      if not cutoff or sortable(last) < cutoff then cutoff = sortable(last) end
    end
    for i = 1, #entries do
      local values, wrong = checked_values(max_body, entries[i][2])
      if values then
        list[#list + 1] = { suffix = suffix, id = entries[i][1], values = values }
      else
        bury_junk(agent_type, suffix, entries[i][1], entries[i][2], wrong, turn.worker)
      end
    end
  end
  local empty = {}
  for _, suffix in pairs(drained) do empty[#empty + 1] = suffix end
  bulk('ZREM', P .. 'fresh:' .. agent_type, empty)
  bulk('ZADD', P .. 'fresh:' .. agent_type, left)
  bulk('HSET', P .. 'cursor:' .. agent_type, cursor)
  bulk('SADD', P .. 'grown', read_from)
  return list, cutoff
end
