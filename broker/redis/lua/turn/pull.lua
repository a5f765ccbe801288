-- Pulling new work: agents that are ready, then new entries of streams, within the rate limit of the type.
--
-- newer:<type>                   zset    see versions.lua
-- ready:<type>, suspects:<type>  list    agents whose parked entries may be taken; suspects are tried alone
-- rate:<type>                    string  `<tokens> <ms>`: what is left of the type's rate limit

-- What one turn reads and gives to a worker is bounded, or it would keep the server from everybody else: streams, entries;
-- and at least so much of a type that comes after others.
local STREAMS, STREAMS_AT_LEAST = 192, 32
local MOST_TAKEN, AT_LEAST = 512, 16

-- The streams with the oldest unread entries. Where there are more, also the order from which on those may hold some.
local function oldest_fresh(turn, agent_type)
  local most = math.max(STREAMS_AT_LEAST, STREAMS - turn.streams)
  local found, suffixes = call('ZRANGE', P .. 'fresh:' .. agent_type, 0, most, 'WITHSCORES'), {}
  for i = 1, math.min(#found, 2 * most), 2 do suffixes[#suffixes + 1] = found[i] end
  turn.streams = turn.streams + #suffixes
  -- guard: streams that are not read yet hold back what is newer
  if #found > 2 * most then return suffixes, string.format('%016.0f', tonumber(found[#found])) end
  return suffixes
end

local function earlier(a, b) return a and (not b or a < b) and a or b end

-- What is paused is parked behind its agents, so that what came later by other streams waits for it. It is read no sooner
-- than there is something that could overtake it: until then a paused backlog costs nothing.
local function add_paused(turn, agent_type, streams, suffixes, paused)
  -- guard: nothing overtakes what is paused
  for _, stream in ipairs(read_paused(turn, agent_type, paused)) do streams[#streams + 1] = stream end
  for i = 1, #paused do suffixes[#suffixes + 1] = paused[i] end
end

-- Without these nothing of a type is taken: an agent could be given to two workers, or be overtaken. They are looked at when
-- there is something to take, once in a turn.
local function has_books(turn, agent_type)
  local known = turn.books[agent_type]
  if known == nil then
    call('HLEN', P .. 'busy:' .. agent_type)
    call('HLEN', P .. 'parked:' .. agent_type)
    -- guard: nothing is taken without books
    known = not is_unusable('busy:' .. agent_type) and not is_unusable('parked:' .. agent_type)
    turn.books[agent_type] = known
  end
  return known
end

local function pull_new(turn, agent_type, count)
  if turn.scan then freshen(agent_type) end
  local suffixes, horizon = oldest_fresh(turn, agent_type)
  local early = call('ZCARD', P .. 'early:' .. agent_type) > 0
  -- What would have to be read ahead could be kept nowhere.
  if is_unusable('early:' .. agent_type) then return end
  if #suffixes == 0 and not early or not has_books(turn, agent_type) then return end
  local bound, paused = nil, {}
  if early and #suffixes > 0 then suffixes, bound = behind_early(turn, agent_type, suffixes, count) end
  if turn.paused then suffixes, paused = apart_by_pause(turn, suffixes) end
  local each = #suffixes > 1 and math.max(4, math.ceil(2 * count / #suffixes)) or count
  local streams = #suffixes > 0 and read_streams(turn, agent_type, each, suffixes) or {}
  if #paused > 0 and (#streams > 0 or early or horizon) then add_paused(turn, agent_type, streams, suffixes, paused) end
  local list, cutoff = gather(turn, agent_type, streams, suffixes)
  if horizon then turn.more = true end
  cutoff = earlier(earlier(cutoff, bound), horizon)
  if #streams > 1 or early or horizon or #list > count then
    admit_merged(turn, agent_type, list, cutoff, count)
  else
    admit(turn, agent_type, list)
  end
end

-- Whether no more of what is parked is taken: of each type there is at least one, or it would wait for the others for ever.
local function is_filled(turn, taken, count) return taken >= count or taken > 0 and turn.bytes >= MOST_BYTES end

-- Agents that are ready: at most so many are looked at that the list may be long, with agents that are paused.
local function pull_ready(turn, agent_type, count)
  local taken, length = 0, call('LLEN', P .. 'ready:' .. agent_type)
  if length == 0 or not has_books(turn, agent_type) then return 0 end
  -- guard: a turn looks at a part of a long list
  for _ = 1, math.min(length, MOST_LOOKS) do
    if is_filled(turn, taken, count) then break end
    local key = call('LPOP', P .. 'ready:' .. agent_type)
    taken = taken + take_key(turn, agent_type, key, math.min(HANDED_OVER, count - taken), 'ready:')
  end
  if length > MOST_LOOKS or turn.bytes >= MOST_BYTES then turn.more = true end
  return taken
end

-- Agents that waited for a worker that knows their message, if this one does.
local function pull_newer(turn, agent_type, count)
  local queue, taken, looked = P .. 'newer:' .. agent_type, 0, 0
  local most = math.min(count + 8, MOST_LOOKS) -- some may be taken or paused by now
  for _, line in ipairs(lines_waited_for(agent_type)) do
    -- guard: a worker takes only what it knows
    local members = is_known(turn, line)
      and call('ZRANGEBYLEX', queue, '[' .. line .. '|', '(' .. line .. '}', 'LIMIT', 0, most) or {}
    for i = 1, #members do
      if is_filled(turn, taken, count) or looked >= MOST_LOOKS then
        turn.more = true
        return taken
      end
      looked = looked + 1
      call('ZREM', queue, members[i])
      local key = string.sub(members[i], #line + 2)
      taken = taken + take_key(turn, agent_type, key, math.min(HANDED_OVER, count - taken), 'ready:')
    end
    if #members == most then turn.more = true end
  end
  return taken
end

-- How much of a type may be taken by its rate limit: a bucket that fills by `rate` a second, up to one second's worth.
local function allowance(agent_type, rate)
  local most = math.max(1, rate)
  local tokens, since = string.match(call('GET', P .. 'rate:' .. agent_type) or '', '^(%S+) (%d+)$')
  if not tokens then return most end
  return math.min(most, tonumber(tokens) + (now() - tonumber(since)) / 1000 * rate)
end

-- A full bucket is as good as none: the key expires when it would be full.
local function spend(turn, agent_type, rate, left)
  local full = math.ceil((math.max(1, rate) - left) / rate * 1000)
  if full > 0 then call('SET', P .. 'rate:' .. agent_type, string.format('%.3f ', left) .. text(now()), 'PX', text(full)) end
  if left < 1 then
    local due = now() + math.ceil((1 - left) / rate * 1000)
    if not turn.next_token or due < turn.next_token then turn.next_token = due end
  end
end

-- What may have ended workers is tried alone: what another agent's handler does is not lost with it when the worker dies
-- again, and it is known then what ended it. Returns whether one was taken.
local function pull_suspect(turn, agent_type)
  local queue, rate = P .. 'suspects:' .. agent_type, turn.rate[agent_type]
  for _ = 1, math.min(call('LLEN', queue), MOST_LOOKS) do
    turn.suspicion = first_suspicion(agent_type, call('LINDEX', queue, 0) or '') or 0
    -- guard: a suspect waits for a worker that holds nothing
    if turn.held > 0 or turn.out_n > 0 then return false end
    local tokens = rate and allowance(agent_type, rate)
    -- guard: a suspect counts in the rate
    if tokens and tokens < 1 then
      spend(turn, agent_type, rate, tokens)
      turn.suspicion = nil
      return false
    end
    if take_key(turn, agent_type, call('LPOP', queue), 1, 'suspects:') > 0 then
      if tokens then spend(turn, agent_type, rate, tokens - 1) end
      return true
    end
    turn.suspicion = nil
  end
  return false
end

local function pull_type(turn, agent_type, count)
  if turn.resumed and turn.resumed[agent_type] then
    -- guard: all that was put aside goes on
    unshelve(agent_type, turn.resumed[agent_type])
    turn.more = true
  end
  count = count - pull_ready(turn, agent_type, count)
  if count > 0 and call('EXISTS', P .. 'newer:' .. agent_type) == 1 and has_books(turn, agent_type) then
    count = count - pull_newer(turn, agent_type, count)
  end
  if turn.bytes >= MOST_BYTES then count = math.min(count, 1) end
  if count > 0 then pull_new(turn, agent_type, count) end
end

local function pull_limited(turn, agent_type, count, rate)
  local tokens, before = allowance(agent_type, rate), turn.out_n
  count = math.min(count, math.floor(tokens))
  if count > 0 then pull_type(turn, agent_type, count) end
  spend(turn, agent_type, rate, tokens - (turn.out_n - before) / DELIVERY)
end

-- What was handed over took of the room; a quarter of it is always for others, or busy agents would keep them waiting.
local function room_for(turn, agent_type)
  local wanted = turn.wanted[agent_type]
  local room = math.max(wanted - turn.handed, math.ceil(wanted / 4))
  return math.min(room, math.max(AT_LEAST, MOST_TAKEN - turn.out_n / DELIVERY))
end

local function is_wanted(turn, agent_type)
  return turn.wanted[agent_type] > 0 and not (turn.paused and turn.paused['type ' .. agent_type])
end

local function pull_all(turn)
  for _, agent_type in ipairs(turn.type_names) do
    -- guard: nothing comes along with a suspect
    if is_wanted(turn, agent_type) and pull_suspect(turn, agent_type) then return end
  end
  for _, agent_type in ipairs(turn.type_names) do
    if is_wanted(turn, agent_type) then
      local count, rate, before = room_for(turn, agent_type), turn.rate[agent_type], turn.out_n
      if rate then
        pull_limited(turn, agent_type, count, rate)
      else
        pull_type(turn, agent_type, count)
      end
      -- guard: what one turn does not give comes with the next
      if count < turn.wanted[agent_type] and (turn.out_n - before) / DELIVERY >= count then turn.more = true end
    end
  end
end
