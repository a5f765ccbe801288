-- Reading new entries of streams. What can't be given to a worker becomes a dead letter on the way.
--
-- fresh:<type>   zset  streams that may hold unread entries, see topics.lua
-- cursor:<type>  hash  suffix -> last id that the group was given

-- MOST_NAME, MOST_SENDER, MOST_HEAD: bytes; they stand in callboard/broker/envelope.py and callboard/broker/ids.py, where
-- publishers are refused.

local function read_group(turn, agent_type, count, suffixes)
  if this.was_read then
    local got = this.was_read -- by alone.take(), in the same way
    this.was_read = nil
    return got
  end
  if #suffixes == 1 then
    return redis.pcall('XREADGROUP', 'GROUP', agent_type, turn.worker, 'COUNT', digits(count), 'STREAMS', P .. suffixes[1], '>')
  end
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
    local part = #suffixes > 1000 and { unpack(suffixes, i, math.min(i + 999, #suffixes)) } or suffixes
    local got = read_group(turn, agent_type, count, part)
    if failure(got) then got = read_one_by_one(turn, agent_type, count, part) end
    for _, stream in ipairs(got or NONE) do
      local entries = stream[2]
      stream[1] = #part == 1 and part[1] or string.sub(stream[1], #P + 1) -- its suffix from here on
      -- What ends with the last id that was given has been read to its end: it is not asked once more, by the turn of the
      -- commit, for whose end a requester waits.
      -- guard: a stream that may hold more is read on
      if #entries >= count and not is_newest(entries[#entries][1]) then stream.is_cut = true end
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
      if stream.is_cut then suffixes[#suffixes + 1] = stream[1] end
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

-- Streams that may hold more, by suffix the time that no entry of it is before, stay fresh. Returns the others.
local function keep_fresh(agent_type, left, suffixes)
  local marks, drained = {}, {}
  for i = 1, #suffixes do
    local suffix = suffixes[i]
    if left[suffix] then
      marks[#marks + 1], marks[#marks + 2] = left[suffix], suffix
    else
      drained[#drained + 1] = suffix
    end
  end
  bulk('ZADD', P .. 'fresh:' .. agent_type, marks)
  return drained
end

-- A small sorted set is a list that is searched for each member that comes. One long member makes a tree of it, which it is until it is
-- empty: so one of many streams stays, and a later turn looks at it in vain. (Publishers have no right to take the long one out.)
local MANY_STREAMS = 32
local function drop_fresh(fresh, drained, is_all)
  local n = #drained
  if is_all and n > MANY_STREAMS then
    call('ZADD', fresh, 'NX', '0', LONG)
    drained[n] = LONG
  end
  bulk('ZREM', fresh, drained)
end

-- What was read and is not `given` yet, as {suffix, id, values}. Also the lowest last id of the streams that returned as much as was
-- asked for: they may hold more, so what lies above it has to wait. `is_all`: no other stream is known to hold something.
local function gather(turn, agent_type, streams, suffixes, is_all)
  local list, cutoff, max_body, drained, left, read_from, cursor = {}, nil, turn.terms.max_body, suffixes, nil, {}, {}
  for i = 1, #streams do
    local stream = streams[i]
    local suffix, entries = stream[1], stream[2]
    local last = entries[#entries][1]
    read_from[i], cursor[2 * i - 1], cursor[2 * i] = suffix, suffix, last
    if stream.is_cut then
      left = left or {}
      left[suffix] = string.match(last, '^%d+')
      turn.more = true
      if not cutoff or sortable(last) < cutoff then cutoff = sortable(last) end
    end
    for i = streams.are_given and #entries + 1 or (stream.given or 0) + 1, #entries do
      local values, wrong = checked_values(max_body, entries[i][2])
      if values then
        list[#list + 1] = { suffix = suffix, id = entries[i][1], values = values }
      else
        bury_junk(agent_type, suffix, entries[i][1], entries[i][2], wrong, turn.worker)
      end
    end
  end
  if left then drained = keep_fresh(agent_type, left, suffixes) end
  local keys = turn.terms.keys[agent_type]
  drop_fresh(keys.fresh, drained, is_all and not left)
  bulk('HSET', keys.cursor, cursor)
  bulk('SADD', P .. 'grown', read_from)
  return list, cutoff
end
