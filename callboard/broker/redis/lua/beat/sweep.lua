-- Taking handled entries away from between others that are still pending.
--
-- config  hash  `sweep:<suffix>`: where the sweep of a stream goes on

-- One old entry that is still pending must not keep all the newer ones: look at them one by one, so many in a beat.
local SWEEP, PAGE, MOST_BYTES = 500, 100, 4000000

local function read_page(tidy, stream, from)
  local entries = call('XRANGE', stream, from, '+', 'COUNT', PAGE)
  tidy.entries = tidy.entries - PAGE
  for i = 1, #entries do
    for j = 1, #entries[i][2] do tidy.bytes = tidy.bytes - #entries[i][2][j] end
  end
  return entries
end

-- Marks what a group has pending between two ids; ids of entries that were deleted by hand count as well, so that there
-- may be more of them than entries.
local function mark_pending(keep, stream, group, from, last)
  repeat
    local found = call('XPENDING', stream, group, from, last, PAGE)
    for _, pending in ipairs(found) do keep[pending[1]] = true end
    from = #found > 0 and '(' .. found[#found][1]
  until #found < PAGE
end

local function sweep_page(stream, entries, groups, most)
  local keep, reach, last, gone = {}, nil, entries[#entries][1], {}
  for _, group in ipairs(groups) do
    reach = lowest(reach, group['last-delivered-id'])
    mark_pending(keep, stream, group.name, entries[1][1], last)
  end
  for i = 1, #entries do
    local id = entries[i][1]
    -- guard: the sweep spares what is pending
    if not keep[id] and sortable(id) <= sortable(reach) and #gone < most then gone[#gone + 1] = id end
  end
  bulk('XDEL', stream, gone)
  return #gone
end

-- `most` handled entries may go. Returns whether the sweep goes on with the next beat.
local function sweep(tidy, groups, suffix, most)
  local stream, place = P .. suffix, 'sweep:' .. suffix
  local from = string.match(call('HGET', P .. 'config', place) or '', '^%(%d+%-%d+$') or '-'
  while tidy.entries > 0 and tidy.bytes > 0 and most > 0 do
    local entries = read_page(tidy, stream, from)
    if #entries == 0 then break end
    most = most - sweep_page(stream, entries, groups, most)
    from = '(' .. entries[#entries][1]
    if #entries < PAGE then
      call('HDEL', P .. 'config', place)
      return false
    end
  end
  call('HSET', P .. 'config', place, from)
  return most > 0
end
