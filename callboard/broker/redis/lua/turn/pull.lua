-- Pulling new work: agents that are ready, then new entries of streams, within the rate limit of the type.
--
-- suspects:<type>  list    agents that are tried alone, see parked.lua
-- rate:<type>      string  `<tokens> <ms>`: what is left of the type's rate limit

-- What one turn gives to a worker is bounded, or it would keep the server from everybody else; of a type that comes after
-- others there is at least so much.
local MOST_TAKEN, AT_LEAST = 512, 16

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
  if full > 0 then call('SET', P .. 'rate:' .. agent_type, string.format('%.3f ', left) .. now_as_text(), 'PX', text(full)) end
  if left < 1 then
    local due = now() + math.ceil((1 - left) / rate * 1000)
    if not turn.next_token or due < turn.next_token then turn.next_token = due end
  end
end

-- What may have ended workers is tried alone: what another agent's handler does is not lost with it when the worker dies
-- again, and it is known then what ended it. Returns whether one was taken.
local function pull_suspect(turn, agent_type)
  local queue, rate = P .. 'suspects:' .. agent_type, turn.terms.rate[agent_type]
  local length = call('LLEN', queue)
  if length == 0 or not has_books(turn, agent_type) then return false end
  -- Whether its worker hears the bell is not known, and the death of who tries a suspect has to be the suspect's.
  -- guard: a suspect does not come with a bell
  if turn.scan == AT_BELL then
    turn.more = true
    return true
  end
  for _ = 1, math.min(length, MOST_LOOKS) do
    turn.suspicion = first_suspicion(agent_type, call('LINDEX', queue, 0) or '') or 0
    -- guard: a suspect waits for a worker that holds nothing
    if turn.held > 0 or turn.given > 0 then return false end
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

-- The types of which agents wait to be tried alone: first that of the newest, see make_suspect().
local function with_suspects(turn)
  local found, since, paused = {}, {}, turn.paused
  for _, agent_type in ipairs(turn.terms.types) do
    local key = not (paused and paused['type ' .. agent_type]) and call('LINDEX', P .. 'suspects:' .. agent_type, 0)
    if key then
      local _, id = split_ref(call('LINDEX', P .. 'wait:' .. agent_type .. ':' .. key, 0) or '')
      found[#found + 1], since[agent_type] = agent_type, sortable(id)
    end
  end
  -- guard: of the suspects of several types the newest is tried first
  table.sort(found, function(a, b) return since[a] > since[b] end)
  return found
end

local function pull_type(turn, agent_type, count)
  if turn.resumed and turn.resumed[agent_type] then
    -- guard: all that was put aside goes on
    unshelve(agent_type, turn.resumed[agent_type])
    turn.is_quiet = false
    turn.more = true
  end
  if not turn.is_quiet then count = count - pull_parked(turn, agent_type, count) end
  if turn.bytes >= MOST_BYTES then count = math.min(count, 1) end
  if count > 0 then pull_new(turn, agent_type, count) end
end

local function pull_limited(turn, agent_type, count, rate)
  local tokens, before = allowance(agent_type, rate), turn.given
  count = math.min(count, math.floor(tokens))
  if count > 0 then pull_type(turn, agent_type, count) end
  spend(turn, agent_type, rate, tokens - (turn.given - before))
end

-- What was handed over took of the room; a quarter of it is always for others, or busy agents would keep them waiting.
local function room_for(turn)
  local wanted = turn.wanted
  if wanted <= MOST_TAKEN and turn.handed == 0 and turn.given == 0 then return wanted end
  local room = math.max(wanted - turn.handed, math.ceil(wanted / 4))
  return math.min(room, math.max(AT_LEAST, MOST_TAKEN - turn.given))
end

local function pull_all(turn)
  if turn.wanted <= 0 then return end
  -- There is nothing but new entries, for all types of the worker: mostly so.
  local types, rates, paused = turn.terms.types, turn.terms.rate, turn.paused
  turn.is_quiet = turn.is_calm or #types > 0 and how_many(turn.terms.waiting) == 0
  for _, agent_type in ipairs(turn.is_quiet and NONE or with_suspects(turn)) do
    -- guard: nothing comes along with a suspect
    if pull_suspect(turn, agent_type) then return end
  end
  for i = 1, #types do
    local agent_type = types[i]
    if not (paused and paused['type ' .. agent_type]) then
      local count, rate, before = room_for(turn), rates[agent_type], turn.given
      if rate then
        pull_limited(turn, agent_type, count, rate)
      else
        pull_type(turn, agent_type, count)
      end
      -- guard: what one turn does not give comes with the next
      if count < turn.wanted and turn.given - before >= count then turn.more = true end
    end
  end
end
