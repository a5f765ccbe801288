-- Chores: what would keep the server busy for too long in one call is begun, and goes on in beats, a step in each.
--
-- chores  hash  `<kind> <what it is about>` -> how far it is

local STEP = 2000 -- entries, streams or agents that one step looks at

-- One function for each kind: gets what it is about and how far it is, and returns how far it is then; nil: it is done.
local STEPS = {}

-- Does a step; what is left is for the beats. Returns whether something is left.
local function take_step(kind, what, place)
  local name = kind .. ' ' .. what
  local reached = STEPS[kind](what, place)
  if not reached then
    call('HDEL', P .. 'chores', name)
    return false
  end
  -- guard: a chore goes on where it was
  call('HSET', P .. 'chores', name, reached)
  return true
end

-- One step of one chore, of another one with each beat. Returns whether something is left to do.
local function do_chores()
  local count = call('HLEN', P .. 'chores')
  if count == 0 then return false end
  local chores = call('HGETALL', P .. 'chores')
  local at = 2 * (call('HINCRBY', P .. 'config', 'chore', 1) % count)
  local name, place = chores[at + 1], chores[at + 2]
  local kind, what = string.match(name, '^(%S+) (.*)$')
  local went_well, is_left = pcall(take_step, kind, what, place)
  if went_well then return is_left or count > 1 end
  -- Somebody wrote there by hand. What is left undone by it a repair finds; no beat would ever get past it.
  event('chore given up', name, place, failure(is_left) or tostring(is_left))
  -- guard: a chore that can't be done stops no beat
  call('HDEL', P .. 'chores', name)
  return count > 1
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
