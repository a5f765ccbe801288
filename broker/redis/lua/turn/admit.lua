-- Admitting entries that were read: to the worker, behind a busy agent, or to wait for an older one of another stream.
--
-- busy:<type>, wait:<type>:<key>, parked:<type>  see parked.lua
-- early:<type>  zset  refs read ahead of another stream, score 0, member `<sortable id>|<ref>`

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

local function is_before(a, b) return a.sort < b.sort end

local function merge_early(agent_type, list, count)
  for i = 1, #list do list[i].sort = sortable(list[i].id) end
  for _, member in ipairs(call('ZRANGE', P .. 'early:' .. agent_type, 0, count - 1)) do
    local order, ref = string.match(member, '^([^|]*)|(.*)$')
    local suffix, id = split_ref(ref)
    -- What is none of ours comes first, and goes.
    list[#list + 1] = { suffix = suffix, id = id, sort = suffix ~= '' and order or '', member = member }
  end
  -- guard: streams are merged in the order of publishing
  table.sort(list, is_before)
end

-- Whether an entry that was read ahead is still there.
local function is_there(agent_type, item)
  local flat = entry_of(item.suffix, item.id)
  item.values = flat and entry_values(flat)
  if item.values then return true end
  call('XACK', P .. item.suffix, agent_type, item.id)
end

-- Several streams: in the order of publishing, up to the first gap and to the number wanted. What lies behind the gap
-- waits: an older entry of the stream that was not read to its end may be for the same agent.
local function admit_merged(turn, agent_type, list, cutoff, count)
  merge_early(agent_type, list, turn.paused and count + ASIDE or count)
  local chosen, paused, ahead, early_no_more = {}, turn.paused or {}, {}, {}
  for i = 1, #list do
    local item = list[i]
    -- guard: a gap in another stream holds back what is newer
    if count > 0 and (not cutoff or item.sort <= cutoff) then
      if item.member then early_no_more[#early_no_more + 1] = item.member end
      if not item.member or is_there(agent_type, item) then
        chosen[#chosen + 1] = item
        -- What is paused takes no place of the worker.
        if not paused[item.suffix] then count = count - 1 end
      end
    elseif not item.member then
      ahead[#ahead + 1], ahead[#ahead + 2] = 0, item.sort .. '|' .. item.suffix .. ' ' .. item.id
      turn.more = true
    end
  end
  bulk('ZREM', P .. 'early:' .. agent_type, early_no_more)
  -- guard: what was read ahead is kept
  bulk('ZADD', P .. 'early:' .. agent_type, ahead)
  if count == 0 then turn.more = true end
  admit(turn, agent_type, chosen)
end

-- Enough may have been read ahead already: then only streams that may hold something older are read, so that a backlog
-- in many streams is not read ahead as a whole. Also the order up to which entries are known to be complete then.
local function behind_early(turn, agent_type, suffixes, count)
  local last = call('ZRANGE', P .. 'early:' .. agent_type, count - 1, count - 1)[1]
  if not last then return suffixes end
  local bound = string.match(last, '^[^|]*')
  local cursors, behind, ahead = bulk_get(P .. 'cursor:' .. agent_type, suffixes), {}, {}
  for i = 1, #suffixes do
    if sortable(cursors[i] or '0-0') < bound then
      behind[#behind + 1] = suffixes[i]
    else
      ahead[#ahead + 1], ahead[#ahead + 2] = string.match(cursors[i], '^%d+'), suffixes[i]
    end
  end
  if #behind == #suffixes then return suffixes end
  -- Else they would stand before streams of which nothing is known, and hold back with those what is there.
  -- guard: streams that were read ahead make room for others
  if #behind == 0 then bulk('ZADD', P .. 'fresh:' .. agent_type, ahead) end
  turn.more = true
  return behind, bound
end
