-- New entries as they mostly are: messages as publishers store them, for agents that are idle or run in this worker. They are given
-- without the tables and questions that all others need.
--
-- Those of one stream come as they were read, those of several in the order of publishing, with a list of their streams: `from`.

local usual = {}

-- An entry id as a number: so many times the milliseconds after those of the first one, and what follows them.
local SPAN, MOST_MS = 4194304, 4503599627370496

-- Of the entries of several streams, in the order of publishing, those that may be given, their streams, and the number of all; nil where
-- such numbers can't say it. (A number that can't be told from another one is rounded; then both are the same.)
local function merge(streams, wanted)
  local numbers, of, stream_of, n, base, last_ms, ms, gap = {}, {}, {}, 0, nil, nil, 0, nil
  for i = 1, #streams do
    local suffix, entries, number = streams[i][1], streams[i][2], nil
    for j = 1, #entries do
      local id = entries[j][1]
      local dash = string.find(id, '-', 1, true)
      local its_ms = string.sub(id, 1, dash - 1)
      number = number_of(string.sub(id, dash + 1))
      if its_ms ~= last_ms then
        base, last_ms = base or its_ms + 0, its_ms
        ms = (its_ms - base) * SPAN
      end
      -- guard: ids that no number can say are compared as texts
      if number >= SPAN or its_ms - MOST_MS > 0 then return nil end
      number, n = ms + number, n + 1
      -- guard: of two entries with one id none is lost
      if of[number] then return nil end
      numbers[n], of[number], stream_of[number] = number, entries[j], suffix
    end
    if streams[i].is_cut and not (gap and gap < number) then gap = number end
  end
  -- guard: streams are merged in the order of publishing, where nothing is read ahead
  table.sort(numbers)
  local entries, from = {}, {}
  -- guard: of several streams no more is given than is wanted
  for i = 1, math.min(n, wanted) do
    local number = numbers[i]
    -- guard: what lies behind a gap is not plain
    if gap and number > gap then break end
    entries[i], from[i] = of[number], stream_of[number]
  end
  return entries, from, n
end

-- Agents of the entries from the first up to one that is not as publishers store it, or that no worker may be given.
function usual.keys_of(max_body, entries)
  local keys = {}
  for i = 1, #entries do
    local flat = entries[i][2]
    local width, key = #flat, flat[6]
    if flat[1] ~= 'id' or flat[3] ~= 'type' or flat[5] ~= 'key' then return keys end
    local names = #flat[2] + #flat[4] + #key
    if width == 12 and flat[7] == 'from' and flat[9] == 'head' and flat[11] == 'body' then
      names = names + #flat[8]
      -- guard: an entry with a head that is too long is not plain
      if #flat[10] > MOST_HEAD then return keys end
    elseif width ~= 8 or flat[7] ~= 'body' then
      return keys
    end
    -- What is longer is looked at by checked_values().
    -- guard: an entry that is too long is not plain
    if names > MOST_NAME or #flat[width] > max_body then return keys end
    keys[i] = key
  end
  return keys
end

-- Adds entries of one type and form to the deliveries, from this one on; returns behind which the next type or form begins.
local function give_run(turn, agent_type, suffix, from, entries, first, last)
  if turn.out_n == 0 then turn.out = {} end
  local out, n, bytes = turn.out, turn.out_n, turn.bytes
  local kind, length = entries[first][2][4], #entries[first][2]
  local i = first
  while i <= last do
    local entry = entries[i]
    local flat = entry[2]
    if flat[4] ~= kind or #flat ~= length then break end
    out[n + 1], out[n + 2], out[n + 3] = entry[1], flat[2], flat[6]
    if length == 8 then
      out[n + 4], n = flat[8], n + GIVEN_PLAIN_WIDTH
    else
      out[n + 4], out[n + 5], out[n + 6], n = flat[8], flat[10], flat[12], n + GIVEN_HEADED_WIDTH
    end
    if from then
      out[n + 1], n = from[i], n + 1
    end
    i, bytes = i + 1, bytes + #flat[length]
  end
  turn.bytes = bytes
  local width = length == 8 and GIVEN_PLAIN_WIDTH or GIVEN_HEADED_WIDTH
  if from then
    add_run(turn, agent_type, '', kind, width + 1, i - first)
  else
    add_run(turn, agent_type, suffix, kind, width, i - first)
  end
  return i
end

-- The fields of own:<worker> and of busy:<type> for the first entries: up to one whose agent somebody else has. Returns their number.
local function take_agents(turn, agent_type, suffix, from, entries, keys)
  local busy_key, worker = turn.terms.keys[agent_type].busy, turn.worker
  local busy, any_parked = turn.any_busy[agent_type] and bulk_get(busy_key, keys) or NONE, turn.any_parked[agent_type]
  if turn.own_n == 0 then turn.own_new = {} end
  local own, own_n, head, taken, n, count = turn.own_new, turn.own_n, agent_type .. ' ' .. suffix .. ' ', {}, 0, #keys
  for i = 1, #keys do
    local key, holder, id = keys[i], busy[i], entries[i][1]
    -- guard: an agent that another worker runs, or that something is parked behind, is not plain
    if holder and (holder ~= worker or any_parked) then
      count = i - 1
      break
    end
    if not holder then taken[n + 1], taken[n + 2], n = key, worker, n + 2 end
    own[own_n + 1] = from and agent_type .. ' ' .. from[i] .. ' ' .. id or head .. id
    own[own_n + 2], own_n = key, own_n + 2
  end
  turn.own_n = own_n
  bulk_set(busy_key, taken)
  if n > 0 and turn.any_busy ~= NONE then turn.any_busy[agent_type] = true end
  return count
end

-- Notes of each of several streams how many of its entries are given.
local function note_given(streams, from, count)
  local given = {}
  for i = 1, count do given[from[i]] = (given[from[i]] or 0) + 1 end
  for i = 1, #streams do
    -- guard: what is not given yet goes another way
    streams[i].given = given[streams[i][1]]
  end
end

-- Gives entries of the streams that were read, from the first on, up to one that needs more; `given` of each stream: how many of it,
-- and `are_given`: all of them.
-- (What comes alone is given in fewer steps than these.)
function usual.give(turn, agent_type, streams, wanted)
  local entries, from, suffix, n = streams[1][2], nil, streams[1][1], nil
  if #streams == 1 and #entries == 1 or turn.paused or turn.any_cancelled or turn.terms.persistent[agent_type] then return end
  if #streams > 1 then
    entries, from, n = merge(streams, wanted)
    if not entries then return end
  else
    -- guard: what is read beyond what is wanted is not plain
    if #entries > wanted then return end
  end
  local keys = usual.keys_of(turn.terms.max_body, entries)
  if #keys == 0 then return end
  local count, i = take_agents(turn, agent_type, suffix, from, entries, keys), 1
  while i <= count do i = give_run(turn, agent_type, suffix, from, entries, i, count) end
  if count == (n or #entries) then
    streams.are_given = true
  elseif from then
    note_given(streams, from, count)
  else
    streams[1].given = count
  end
end
