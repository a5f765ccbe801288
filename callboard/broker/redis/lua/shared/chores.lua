-- Chores: what would keep the server busy for too long in one call is begun, and goes on in beats, a step in each.
--
-- chores  hash  `<kind> <what it is about>` -> how far it is
-- config  hash  `scanned by`: run_id of the server process whose cursors these places, and those in `resumed`, have

local STEP = 500 -- entries, streams or agents that the chores of one call look at, in `this.looked_at`

-- One function for each kind: gets what it is about and how far it is, and returns how far it is then; nil: it is done.
local STEPS = {}

-- Where a place has the cursor of a scan, by kind of chore.
local CURSORS = { leave = '^(%a*)%d+', subscribe = '^(%a*)%d+', adopt = '^(parked )%d+' }

-- A cursor says nothing to another server process, which has the same entries in another order: what was being scanned when the
-- server was started again, or a replica took over, is scanned from its beginning. To be called before such a place is read;
-- returns whether places were changed.
local function renew_cursors()
  local info = redis.pcall('INFO', 'server')
  local process = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
  if call('HGET', P .. 'config', 'scanned by') == process then return false end
  local chores, resumed = call('HGETALL', P .. 'chores'), call('HKEYS', P .. 'resumed')
  for i = 1, #chores, 2 do
    local pattern = CURSORS[string.match(chores[i], '^%S*')]
    -- guard: a chore begins its scan anew on another server
    if pattern then call('HSET', P .. 'chores', chores[i], (string.gsub(chores[i + 1], pattern, '%10'))) end
  end
  -- guard: a look at shelved agents begins anew on another server
  for i = 1, #resumed do call('HSET', P .. 'resumed', resumed[i], '0') end
  call('HSET', P .. 'config', 'scanned by', process)
  return true
end

-- How much of STEP is left.
local function room_for_chores() return STEP - (this.looked_at or 0) end

-- Does a step where there is room for it; what is left is for the beats. Returns whether something is left.
local function take_step(kind, what, place)
  local name, reached = kind .. ' ' .. what, place
  -- guard: many chores of one call are done in several
  if room_for_chores() > 0 then reached = STEPS[kind](what, place) end
  if not reached then
    call('HDEL', P .. 'chores', name)
    return false
  end
  -- guard: a chore goes on where it was
  call('HSET', P .. 'chores', name, reached)
  return true
end

local MOST_CHORES = 20 -- that one beat has a look at, however little there is to do for each

-- Steps of as many chores as there is room for, from another one on with each beat. Returns whether something is left to do,
-- which may be what one of these steps began.
local function do_chores()
  local count = call('HLEN', P .. 'chores')
  if count == 0 then return false end
  renew_cursors()
  local names = call('HKEYS', P .. 'chores')
  local first = call('HINCRBY', P .. 'config', 'chore', 1)
  for i = first, first + math.min(count, MOST_CHORES) - 1 do
    if room_for_chores() <= 0 then break end
    local name = names[i % count + 1]
    -- Another of them may have begun this one anew, or done it.
    local went_well, problem, place = true, nil, call('HGET', P .. 'chores', name)
    if place then went_well, problem = pcall(take_step, string.match(name, '^%S+'), string.match(name, ' (.*)$'), place) end
    if not went_well then
      -- Somebody wrote there by hand. What is left undone by it a repair finds; no beat would ever get past it.
      event('chore given up', name, place, failure(problem) or tostring(problem))
      -- guard: a chore that can't be done stops no beat
      call('HDEL', P .. 'chores', name)
    end
  end
  return call('EXISTS', P .. 'chores') == 1
end

-- The streams of which a group adopts what was pending: until that is done it says too little of what is needed.
local function being_adopted()
  local streams = {}
  for _, name in ipairs(call('HKEYS', P .. 'chores')) do
    local suffix = string.match(name, '^adopt %S+ (%S+)')
    if suffix then streams[suffix] = true end
  end
  return streams
end
