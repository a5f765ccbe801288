-- What was read ahead of another stream, and is given by a later turn.
--
-- early:<type>  zset  refs read ahead, score 0, member `<sortable id>|<ref>`
-- config        hash  `ahead <type>`: the turn that added the last of them
--
-- Mostly it is the next turn that gives it. So that it need not be read once more, what is small is kept between calls, as a
-- copy of what its stream holds: the key says what was read ahead, and a member without a copy is read from its stream.
--
-- Where the data of a server are replaced, as those of a primary that becomes a replica, another entry may have the same
-- id. So a copy counts as long as the data say that they go on from the turn that made the last one.

-- copies         by key of `early:<type>`: {turn, n, items by member}
-- n              how many there are, of all types
-- most, largest  so many are kept at the most; bytes of a body
local ahead = { copies = {}, n = 0, most = 4000, largest = 1000 }

-- `is_empty`: nothing is read ahead, so that a copy is of what others took away.
function ahead.copies_of(agent_type, is_empty)
  local key = P .. 'early:' .. agent_type
  local copies = ahead.copies[key]
  -- guard: copies of what other data hold are forgotten
  if copies and not (is_empty and copies.n > 0) and copies.turn == call('HGET', P .. 'config', 'ahead ' .. agent_type) then return copies end
  if copies then ahead.n = ahead.n - copies.n end
  copies = { n = 0, items = {} }
  ahead.copies[key] = copies
  return copies
end

-- As sortable() and a reference, made at once.
function ahead.member(suffix, id)
  local dash = string.find(id, '-', 1, true)
  return string.rep('0', 17 - dash) .. string.sub(id, 1, dash) .. string.rep('0', 20 + dash - #id) .. string.sub(id, dash + 1)
    .. '|' .. suffix .. ' ' .. id
end

-- Entries that were read, in the order of publishing, each with its `member`.
function ahead.in_order(list)
  local members, of = {}, {}
  for i = 1, #list do
    local item = list[i]
    local member = ahead.member(item.suffix, item.id)
    item.member, members[i], of[member] = member, member, item
  end
  -- guard: streams are merged in the order of publishing
  table.sort(members)
  for i = 1, #members do members[i] = of[members[i]] end
  return members
end

-- Whether a member lies behind an order. Nearly none that is asked for does, and one look says so: to make a text takes as
-- long as a command.
function ahead.is_behind(member, order) return not (member < order) and string.match(member, '^[^|]*') > order end

-- Of two orders, where there are any.
function ahead.earlier(a, b) return a and (not b or a < b) and a or b end

-- The entry of a member, which goes from `early:<type>`; nil when it is gone, or the member is none of ours.
function ahead.take(copies, agent_type, member)
  local item = copies.items[member]
  if item then
    copies.items[member], copies.n, ahead.n = nil, copies.n - 1, ahead.n - 1
    return item
  end
  local suffix, id = split_ref(string.match(member, '|(.*)$'))
  local flat = suffix ~= '' and entry_of(suffix, id)
  local values = flat and entry_values(flat)
  if values then return { suffix = suffix, id = id, values = values } end
  call('XACK', P .. suffix, agent_type, id)
end

-- Keeps entries, from the first of them on, for later turns.
function ahead.add(turn, copies, agent_type, items, first)
  -- Copies of a type that is not used any more would take the room for ever.
  if ahead.n >= ahead.most then ahead.copies, ahead.n = { [P .. 'early:' .. agent_type] = copies }, copies.n end
  local members = {}
  for i = first, #items do
    local item, n = items[i], #members
    members[n + 1], members[n + 2] = '0', item.member
    if ahead.n < ahead.most and #item.values[BODY] <= ahead.largest then
      copies.items[item.member], copies.n, ahead.n = item, copies.n + 1, ahead.n + 1
    end
  end
  -- guard: what was read ahead is kept
  bulk('ZADD', P .. 'early:' .. agent_type, members)
  copies.turn = turn.worker .. ' ' .. ARGV.number .. ' ' .. now_as_text()
  call('HSET', P .. 'config', 'ahead ' .. agent_type, copies.turn)
end
