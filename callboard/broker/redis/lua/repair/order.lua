-- The order of what is parked behind an agent. A list may be as long as it likes: up to SORTED entries are looked at at once,
-- and in longer ones a place is searched by halving, as if they were in order.

local SORTED = 500

local function wait_list(agent_type, key) return P .. 'wait:' .. agent_type .. ':' .. key end

-- A reset is parked before everything else, in a stream that no group reads: see control.lua.
local function is_urgent(suffix) return string.sub(suffix, 1, 7) == 'urgent:' end

-- A text that sorts as what it names was published.
local function order_of(ref)
  local suffix, id = split_ref(ref)
  return id and not is_urgent(suffix) and string.match(id, '^%d+%-%d+$') and sortable(id) or ''
end

-- The place of the first entry that is not older than this order.
local function place_of(list, order)
  local low, high = 0, call('LLEN', list)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if order_of(call('LINDEX', list, middle)) < order then low = middle + 1 else high = middle end
  end
  return low
end

local function is_in(list, value)
  local at = call('LPOS', list, value)
  return at ~= false and at ~= nil
end

local function is_parked(agent_type, key, ref)
  local list = wait_list(agent_type, key)
  if call('LLEN', list) <= SORTED then return is_in(list, ref) end
  local order = order_of(ref)
  local place = place_of(list, order)
  while true do -- several streams may have the same id
    local found = call('LINDEX', list, place)
    if not found or order_of(found) ~= order then return false end
    if found == ref then return true end
    place = place + 1
  end
end

local function park_in_order(agent_type, key, ref)
  local list = wait_list(agent_type, key)
  local after = call('LLEN', list) > SORTED and call('LINDEX', list, place_of(list, order_of(ref)))
  if after then call('LINSERT', list, 'BEFORE', after, ref) else call('RPUSH', list, ref) end
end

local function is_sorted(refs)
  for i = 2, #refs do
    if order_of(refs[i - 1]) > order_of(refs[i]) then return false end
  end
  return true
end

-- What is parked behind a key is in the order of publishing.
local function sort_parked(agent_type, key)
  local list = wait_list(agent_type, key)
  local refs = call('LRANGE', list, 0, -1)
  if is_sorted(refs) then return end
  local orders = {}
  for i = 1, #refs do orders[refs[i]] = order_of(refs[i]) end
  table.sort(refs, function(a, b) return orders[a] < orders[b] end)
  call('DEL', list)
  bulk('RPUSH', list, refs)
end
