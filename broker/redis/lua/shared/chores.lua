-- Chores: what would keep the server busy for too long in one call is begun, and goes on in beats, a step in each.
--
-- chores  hash  `<kind> <what it is about>` -> how far it is

local STEP = 500 -- entries, streams or agents that the chores of one call look at, in `this.looked_at`

-- One function for each kind: gets what it is about and how far it is, and returns how far it is then; nil: it is done.
local STEPS = {}

-- How much of that is left.
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

-- Steps of as many chores as there is room for, from another one on with each beat. Returns whether something is left to do.
local function do_chores()
  local count = call('HLEN', P .. 'chores')
  if count == 0 then return false end
  local names, is_left = call('HKEYS', P .. 'chores'), count > MOST_CHORES
  local first = call('HINCRBY', P .. 'config', 'chore', 1)
  for i = first, first + math.min(count, MOST_CHORES) - 1 do
    if room_for_chores() <= 0 then return true end
    local name = names[i % count + 1]
    -- Another of them may have begun this one anew, or done it.
    local went_well, left, place = true, false, call('HGET', P .. 'chores', name)
    if place then went_well, left = pcall(take_step, string.match(name, '^%S+'), string.match(name, ' (.*)$'), place) end
    if not went_well then
      -- Somebody wrote there by hand. What is left undone by it a repair finds; no beat would ever get past it.
      event('chore given up', name, place, failure(left) or tostring(left))
      -- guard: a chore that can't be done stops no beat
      call('HDEL', P .. 'chores', name)
    end
    is_left = went_well and left or is_left
  end
  return is_left
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
