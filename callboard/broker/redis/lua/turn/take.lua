-- Giving entries to the worker: what becomes a delivery of the result, and taking what is parked.
--
-- state:<type>:<key>  hash  v (version), d (data), w (worker that wrote it), l (its logs, see logs.lua)
-- own:<worker>        hash  see workers.lua; written once, at the end of the turn

local MOST_BYTES = 8 * 1024 * 1024 -- of bodies in one answer: what parked entries are taken beyond it waits for another turn
local MOST_PARKED = 128 -- parked entries that one turn gives, beside others: each takes five times as long as a new one
local MOST_LOOKS = 200 -- agents, or entries, of a list that one turn looks at: the list may be as long as it likes

-- Returns why the state can't be read, or nil.
local function add_state(turn, agent_type, key)
  local name = 'state:' .. agent_type .. ':' .. key
  local known = call('HMGET', P .. name, 'v', 'w', 'l')
  if #known == 0 then return name .. ': ' .. this.unusable[name] end
  local data = ''
  if known[1] then
    -- guard: a state whose version is no number is not read
    if not string.match(known[1], '^%d+$') then return name .. ': its version is no number' end
    data = known[2] ~= turn.worker and call('HGET', P .. name, 'd') or false
  end
  if turn.states == NONE then turn.states = {} end
  local states = turn.states
  local n = #states
  states[n + 1], states[n + 2], states[n + 3] = turn.given, known[1] or '0', data
  states[n + 4] = known[3] or ''
end

-- Each value of an answer costs what a small command does: what is the same from one delivery to the next is said once, and
-- what is mostly empty only where it is not: tries, and `at` where it is not the time of the entry's id, only in full. Of several
-- streams in turn plain deliveries and headed ones have one value more, their stream.

-- So many deliveries more that have this in common, and so many values each.
local function add_run(turn, agent_type, suffix, kind, width, count)
  local runs, n = turn.runs, turn.run_n
  turn.given, turn.out_n = turn.given + count, turn.out_n + width * count
  if n == 0 then
    turn.runs, turn.run_n = { agent_type, suffix, kind, width, count }, 5
  elseif runs[n - 1] == width and runs[n - 2] == kind and runs[n - 3] == suffix and runs[n - 4] == agent_type then
    runs[n] = runs[n] + count
  else
    runs[n + 1], runs[n + 2], runs[n + 3], runs[n + 4], runs[n + 5] = agent_type, suffix, kind, width, count
    turn.run_n = n + 5
  end
end

local function add_delivery(turn, agent_type, suffix, id, tries, values)
  local from, head, width = values[FROM], values[HEAD], GIVEN_PLAIN_WIDTH
  if tries ~= '' or values[AT] ~= '' then width = GIVEN_FULL_WIDTH elseif from ~= '' or head ~= '' then width = GIVEN_HEADED_WIDTH end
  local out, n, name, key, body = turn.out, turn.out_n, values[ID], values[KEY], values[BODY]
  if n == 0 then
    out = width == GIVEN_PLAIN_WIDTH and { id, name, key, body } or { id, name, key, from, head, body }
    turn.out = out
  else
    out[n + 1], out[n + 2], out[n + 3] = id, name, key
    if width ~= GIVEN_PLAIN_WIDTH then out[n + 4], out[n + 5] = from, head end
  end
  if width == GIVEN_FULL_WIDTH then out[n + 6], out[n + 7] = tries, values[AT] end
  out[n + width] = body
  if turn.is_apart and width ~= GIVEN_FULL_WIDTH then
    out[n + width + 1] = suffix
    suffix, width = '', width + 1
  end
  add_run(turn, agent_type, suffix, values[TYPE], width, 1)
end

-- What the worker holds from now on: field, value for own:<worker>.
local function add_own(turn, field, key)
  local own, n = turn.own_new, turn.own_n
  if n == 0 then turn.own_new = { field, key } else own[n + 1], own[n + 2] = field, key end
  turn.own_n = n + 2
end

-- Gives an entry to the worker. Returns false when it became a dead letter instead: with a default state its handler would do
-- what can't be committed.
local function deliver(turn, agent_type, suffix, id, tries, values)
  local unreadable = turn.terms.persistent[agent_type] and add_state(turn, agent_type, values[KEY])
  -- guard: a handler does not run without its state
  if unreadable then
    bury_entry(agent_type, suffix, id, values, { reason = UNWRITABLE, error = unreadable, worker = turn.worker })
    return false
  end
  if turn.any_cancelled and values[HEAD] ~= '' and call('ZSCORE', P .. 'cancelled', values[ID]) then
    -- In front, where no reason of an earlier attempt can say the same.
    tries = '+' .. (tries == '' and '0 ' .. now_as_text() .. ' 0' or tries)
  end
  add_own(turn, agent_type .. ' ' .. suffix .. ' ' .. id, values[KEY])
  turn.bytes = turn.bytes + #values[BODY]
  add_delivery(turn, agent_type, suffix, id, tries, values)
  return true
end

-- Takes one parked entry. One that is gone was deleted by hand; one that is no message was parked by a repair.
local function take_one(turn, agent_type, key, ref, tries)
  local suffix, id = split_ref(ref)
  local flat = entry_of(suffix, id)
  if not flat then
    event('vanished', agent_type, ref)
    call('XACK', P .. suffix, agent_type, id)
    call('HDEL', P .. 'tries:' .. agent_type, ref)
    return 0
  end
  local values, wrong = entry_values(flat)
  if not values then
    bury_junk(agent_type, suffix, id, flat, wrong, turn.worker)
    return 0
  end
  -- guard: what is taken is pending, also while its group is being mended
  redis.pcall('XCLAIM', P .. suffix, agent_type, turn.worker, '0', id, 'FORCE', 'JUSTID')
  values[KEY] = key
  return deliver(turn, agent_type, suffix, id, tries or '', values) and 1 or 0
end

-- The refs before the first one that is paused.
local function up_to_pause(turn, agent_type, key, refs)
  local list = {}
  for i = 1, #refs do
    if is_paused(turn, agent_type, key, (split_ref(refs[i]))) then break end
    list[i] = refs[i]
  end
  return list
end

-- How many of these lines come before the first that has to be tried alone.
local function before_suspects(agent_type, lines, count)
  for i = 1, count do
    if lines[i] and suspicion(agent_type, lines[i]) then return i - 1 end
  end
  return count
end

-- Takes up to `most` of what is parked behind an agent, as far as the answer carries it: at least one. Returns how many, and
-- why none was taken where something is parked: all that was looked at was gone and there is 'more', or the agent was put
-- aside, because what comes next is 'paused', or a 'suspect', which has to be tried alone (`alone`: it is).
local function take_parked(turn, agent_type, key, most, alone)
  local list, counts = P .. 'wait:' .. agent_type .. ':' .. key, P .. 'parked:' .. agent_type
  local looked = 0
  while looked < MOST_LOOKS do
    local refs, taken, n = call('LRANGE', list, '0', digits(most - 1)), 0, 0
    if #refs == 0 then
      call('HDEL', counts, key)
      return 0
    end
    if turn.paused then
      refs = up_to_pause(turn, agent_type, key, refs)
      -- What was before it is gone.
      -- guard: an entry that is gone lets nothing paused through
      if #refs == 0 then
        shelve(agent_type, key, alone and 'suspects:' or 'ready:')
        return 0, 'paused'
      end
    end
    local tries, count = bulk_get(P .. 'tries:' .. agent_type, refs), #refs
    -- guard: a suspect goes nowhere beside others
    if not alone then count = before_suspects(agent_type, tries, count) end
    if count == 0 then
      make_suspect(agent_type, key)
      return 0, 'suspect'
    end
    while n < count and (n == 0 or turn.bytes < MOST_BYTES) do
      n = n + 1
      taken = taken + take_one(turn, agent_type, key, refs[n], tries[n])
    end
    -- guard: what is taken is not parked any more
    call('LTRIM', list, digits(n), '-1')
    if call('HINCRBY', counts, key, '-' .. digits(n)) <= 0 then call('HDEL', counts, key) end
    if taken > 0 then return taken end
    looked = looked + n
  end
  return 0, 'more'
end

local HANDED_OVER = 16 -- parked entries of one agent that a worker gets at once

-- Takes an agent that is ready, with what is parked behind it.
local function take_key(turn, agent_type, key, most, queue)
  local busy = P .. 'busy:' .. agent_type
  -- The list may name an agent twice, or one that a worker took since by another way.
  if call('HGET', busy, key) ~= '' then return 0 end
  if turn.paused and is_put_aside(turn, agent_type, key, queue) then return 0 end
  local taken, why = take_parked(turn, agent_type, key, most, queue == 'suspects:')
  if taken > 0 then
    call('HSET', busy, key, turn.worker)
  elseif why == 'more' then
    call('RPUSH', P .. queue .. agent_type, key)
  elseif why == 'suspect' then
    -- It was given back, or comes behind one that was tried alone: the next turn looks for suspects first.
    turn.more, turn.suspicion = true, turn.suspicion or 0
  elseif not why then
    call('HDEL', busy, key)
  end
  return taken
end
