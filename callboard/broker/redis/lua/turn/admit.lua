-- Admitting entries that were read: to the worker, behind a busy agent, or to wait for an older one of another stream.
--
-- busy:<type>, wait:<type>:<key>, parked:<type>  see parked.lua

local function park(agent_type, key, entry)
  local wait = 'wait:' .. agent_type .. ':' .. key
  -- guard: what is parked keeps its order
  call('RPUSH', P .. wait, entry.suffix .. ' ' .. entry.id)
  if is_unusable(wait) then
    return bury_entry(agent_type, entry.suffix, entry.id, entry.values,
      { reason = UNWRITABLE, error = wait .. ': ' .. this.unusable[wait] })
  end
  -- guard: what is parked is counted
  call('HINCRBY', P .. 'parked:' .. agent_type, key, '1')
end

-- A paused entry, and what comes after it for the same agent, waits; an idle agent is put aside.
local function hold_back(agent_type, key, holder, mine, behind)
  behind[key] = true
  if not holder and not mine[key] then shelve(agent_type, key, 'ready:') end
  mine[key] = nil
end

-- One entry, where nobody is busy: mostly so, when messages come one at a time.
local function admit_alone(turn, agent_type, entry)
  if not deliver(turn, agent_type, entry.suffix, entry.id, '', entry.values) then return end
  call('HSET', turn.terms.keys[agent_type].busy, entry.values[KEY], turn.worker)
  if turn.any_busy ~= NONE then turn.any_busy[agent_type] = true end
end

-- Admits entries in their order: an idle agent is taken, one of this worker gets one more, anything else is parked.
-- `mine` and `behind`: keys of this batch that go to the worker, or to the wait list.
local function admit(turn, agent_type, list)
  if #list == 0 then return end
  local keys, worker, paused, busy_key = {}, turn.worker, turn.paused, turn.terms.keys[agent_type].busy
  local any_busy = turn.any_busy[agent_type]
  if #list == 1 and not any_busy and not paused then return admit_alone(turn, agent_type, list[1]) end
  for i = 1, #list do keys[i] = list[i].values[KEY] end
  local busy = any_busy and bulk_get(busy_key, keys) or NONE
  local mine, behind, taken, any_parked = {}, {}, {}, turn.any_parked[agent_type]
  for i = 1, #list do
    local entry, key, holder = list[i], keys[i], busy[i]
    if paused and not behind[key] and is_paused(turn, agent_type, key, entry.suffix) then
      hold_back(agent_type, key, holder, mine, behind)
    elseif not mine[key] and not behind[key] then
      -- guard: a busy agent is given to nobody else
      if not holder then
        mine[key] = 'free'
      -- Behind an agent that it runs a worker gets more at once, but not past what is parked: that is older.
      -- guard: nothing overtakes what is parked
      elseif holder == worker and not (any_parked and call('HEXISTS', P .. 'parked:' .. agent_type, key) == 1) then
        mine[key] = 'held'
      else
        behind[key] = true
      end
    end
    if not mine[key] then
      park(agent_type, key, entry)
    elseif not deliver(turn, agent_type, entry.suffix, entry.id, '', entry.values) then
      mine[key] = nil
    elseif mine[key] == 'free' then
      mine[key] = 'taken'
      taken[#taken + 1] = key
      taken[#taken + 1] = worker
    end
  end
  bulk_set(busy_key, taken)
  if #taken > 0 and turn.any_busy ~= NONE then turn.any_busy[agent_type] = true end
end

-- Several streams: in the order of publishing, up to the first gap and to the number wanted. What lies behind the gap
-- waits: an older entry of the stream that was not read to its end may be for the same agent.
local function admit_merged(turn, agent_type, list, cutoff, count)
  local paused, chosen, early_no_more = turn.paused or {}, {}, {}
  local early = call('ZRANGE', P .. 'early:' .. agent_type, 0, turn.paused and count + ASIDE - 1 or count - 1)
  local copies = ahead.copies_of(agent_type, #early == 0)
  local read, at, early_at, suffix, changes = ahead.in_order(list), 1, 1, nil, 0
  while count > 0 do
    local item, member = read[at], early[early_at]
    local is_early = member and not (item and item.member < member)
    if not is_early then member = item and item.member end
    -- guard: a gap in another stream holds back what is newer
    if not member or cutoff and ahead.is_behind(member, cutoff) then break end
    if is_early then
      item, early_at = ahead.take(copies, agent_type, member), early_at + 1
      early_no_more[#early_no_more + 1] = member
    else
      at = at + 1
    end
    if item then
      chosen[#chosen + 1] = item
      if item.suffix ~= suffix then suffix, changes = item.suffix, changes + 1 end
      -- What is paused takes no place of the worker.
      if not paused[item.suffix] then count = count - 1 end
    end
  end
  bulk('ZREM', P .. 'early:' .. agent_type, early_no_more)
  if at <= #read then
    ahead.add(turn, copies, agent_type, read, at)
    turn.more = true
  end
  if count == 0 then turn.more = true end
  -- A run says four values more than one delivery.
  turn.is_apart = 4 * (changes - 1) > #chosen
  admit(turn, agent_type, chosen)
  turn.is_apart = false
end

-- Of streams that may hold something before `bound`, up to which what was read ahead is enough, those that do.
local function behind_early(agent_type, suffixes, bound)
  local cursors, behind, beyond = bulk_get(P .. 'cursor:' .. agent_type, suffixes), {}, {}
  for i = 1, #suffixes do
    if sortable(cursors[i] or '0-0') < bound then
      behind[#behind + 1] = suffixes[i]
    else
      beyond[#beyond + 1], beyond[#beyond + 2] = string.match(cursors[i], '^%d+'), suffixes[i]
    end
  end
  -- Else they would stand before streams of which nothing is known, and hold back with those what is there.
  -- guard: streams that were read ahead make room for others
  bulk('ZADD', P .. 'fresh:' .. agent_type, beyond)
  return behind
end
