-- New entries as they mostly are: all of one stream, messages as publishers store them, for agents that are idle or run in this
-- worker. They are given without the tables and questions that all others need.

local usual = {}

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
local function give_run(turn, agent_type, suffix, entries, first, last)
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
      out[n + 4], n = flat[8], n + PLAIN
    else
      out[n + 4], out[n + 5], out[n + 6], n = flat[8], flat[10], flat[12], n + HEADED
    end
    i, bytes = i + 1, bytes + #flat[length]
  end
  turn.bytes = bytes
  add_run(turn, agent_type, suffix, kind, length == 8 and PLAIN or HEADED, i - first)
  return i
end

-- The fields of own:<worker> and of busy:<type> for the first entries: up to one whose agent somebody else has. Returns their number.
local function take_agents(turn, agent_type, suffix, entries, keys)
  local busy_key, worker = turn.terms.keys[agent_type].busy, turn.worker
  local busy, any_parked = turn.any_busy[agent_type] and bulk_get(busy_key, keys) or NONE, turn.any_parked[agent_type]
  if turn.own_n == 0 then turn.own_new = {} end
  local own, own_n, head, taken, n, count = turn.own_new, turn.own_n, agent_type .. ' ' .. suffix .. ' ', {}, 0, #keys
  for i = 1, #keys do
    local key, holder = keys[i], busy[i]
    -- guard: an agent that another worker runs, or that something is parked behind, is not plain
    if holder and (holder ~= worker or any_parked) then
      count = i - 1
      break
    end
    if not holder then taken[n + 1], taken[n + 2], n = key, worker, n + 2 end
    own[own_n + 1], own[own_n + 2], own_n = head .. entries[i][1], key, own_n + 2
  end
  turn.own_n = own_n
  bulk_set(busy_key, taken)
  if n > 0 and turn.any_busy ~= NONE then turn.any_busy[agent_type] = true end
  return count
end

-- Gives entries of the only stream that was read, from the first on, up to one that needs more; `stream.given`: how many. (What
-- comes alone is given in fewer steps than these.)
function usual.give(turn, agent_type, suffixes, stream, wanted)
  local entries = stream[2]
  if #entries == 1 or turn.paused or turn.any_cancelled or turn.terms.persistent[agent_type] then return end
  -- guard: what is read beyond what is wanted is not plain
  if #entries > wanted then return end
  local keys = usual.keys_of(turn.terms.max_body, entries)
  if #keys == 0 then return end
  local suffix = #suffixes == 1 and suffixes[1] or string.sub(stream[1], #P + 1)
  local count, i = take_agents(turn, agent_type, suffix, entries, keys), 1
  while i <= count do i = give_run(turn, agent_type, suffix, entries, i, count) end
  stream.given = count
end
