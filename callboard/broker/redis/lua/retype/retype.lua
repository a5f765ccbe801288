-- Renames an agent type, or removes it, in many calls that each take about a millisecond; see operations/retyping.py for their
-- order. An interrupted change goes on where it was: every call does what is left of its part.
--
-- ARGV: action, type, new name or '-', how, then what the action is about
--   start                 how: 'rename' or 'remove'; of the latter 'dead' or 'discard'
--   prefixes, early, flip, end
--   stream                a stream; how: of a type that goes, 'dead' or 'discard'
--   parked, resets        keys of agents
--   tries, keys, places   references, suffixes, blobs
--   timers, stragglers    members of `timers`
-- Returns of `start` {'OK' or 'RESUMED', the last word of the change, see shared/changing.lua}, or {what is in the way, its name}; of `stream` and `early` 1 as
--   long as something of it is left; of `parked` how many agents are done; of `stragglers`, which sends on what came for the old
--   name since, how many messages these were; else 0.

local FIXED = { 'bell', 'fresh', 'cursor', 'streams' } -- of which the new type has its own
local RENAMED = { 'busy', 'parked', 'ready', 'suspects', 'shelved', 'suspended', 'newer', 'stats', 'rate', 'dead', 'urgent' }

local function rename_pauses(old, new)
  for _, target in ipairs(call('HKEYS', P .. 'paused')) do
    local kind, name = string.match(target, '^(%a+) (.*)$')
    local is_of = kind == 'type' and name == old or kind == 'key' and string.sub(name, 1, #old + 1) == old .. '/'
    if is_of then
      if new then call('HSET', P .. 'paused', kind .. ' ' .. new .. string.sub(name, #old + 1), call('HGET', P .. 'paused', target)) end
      call('HDEL', P .. 'paused', target)
    end
  end
  if call('HDEL', P .. 'resumed', old) == 1 and new then call('HSET', P .. 'resumed', new, '0') end
end

local function forget_places(old)
  call('HDEL', P .. 'config', 'scan ' .. old, 'trim ' .. old, 'ahead ' .. old, 'sweep:inbox:' .. old)
  for i = 1, #FIXED do call('UNLINK', P .. FIXED[i] .. ':' .. old) end
end

-- Everything that is one key gets its new name, and messages to the new name are taken.
local function flip(old, new)
  local at = retyping.position_of(old, 'inbox:' .. old)
  if call('EXISTS', P .. 'inbox:' .. old) == 1 then call('RENAME', P .. 'inbox:' .. old, P .. 'inbox:' .. new) end
  retyping.take_place(old, new, 'inbox:' .. new, at)
  for i = 1, #RENAMED do
    local from = P .. RENAMED[i] .. ':' .. old
    if call('EXISTS', from) == 1 then call('RENAME', from, P .. RENAMED[i] .. ':' .. new) end
  end
  rename_pauses(old, new)
  call('HSET', P .. 'types', new, call('HGET', P .. 'types', old) or '{}')
  call('HDEL', P .. 'types', old)
  forget_places(old)
  call('HSET', P .. 'config', 'changing', 'rename ' .. old .. ' ' .. new .. ' after')
end

local function finish(old, new, how)
  call('HDEL', P .. 'config', 'changing')
  if new then
    ring(new, 4)
  else
    rename_pauses(old, nil)
    call('HDEL', P .. 'types', old)
    forget_places(old)
    for i = 1, #RENAMED do
      if how ~= 'dead' or RENAMED[i] ~= 'dead' then call('UNLINK', P .. RENAMED[i] .. ':' .. old) end
    end
    call('UNLINK', P .. 'inbox:' .. old, P .. 'early:' .. old, P .. 'tries:' .. old)
  end
  event('type changed', old, new or '', how)
end

-- Messages that others sent to the old name since: they go on in their order, behind what was sent to the new one.
local function forward(old, new)
  local page = call('XRANGE', P .. 'inbox:' .. old, '-', '+', 'COUNT', PORTION)
  this.claims = {}
  for i = 1, #page do
    local values = entry_values(page[i][2])
    if values then send('inbox:' .. new, 0, values[ID], values[TYPE], values[KEY], values[FROM], values[HEAD], values[BODY]) end
    call('XDEL', P .. 'inbox:' .. old, page[i][1])
  end
  if #page < PORTION then call('UNLINK', P .. 'inbox:' .. old) end
  announce(0)
  return #page
end

local ACTIONS = {
  prefixes = function(old, new) retyping.swap_prefixes(old, new) end,
  early = function(old, new) return retyping.move_early(old, new) end,
  flip = function(old, new) flip(old, new) end,
  ['end'] = function(old, new) finish(old, new, ARGV.how) end,
  stream = function(old, new)
    if new then return retyping.move_stream(old, new, ARGV.names) end
    return retyping.drop_stream(old, ARGV.names, ARGV.how)
  end,
  parked = function(old, new) return retyping.move_parked(old, new, NAMES_AT) end,
  resets = function(old, new) retyping.move_resets(old, new, NAMES_AT) end,
  tries = function(old, new) retyping.move_tries(old, new, { unpack(ARGV, NAMES_AT) }) end,
  keys = function(old, new) return retyping.move_keys(old, new, NAMES_AT) end,
  timers = function(old, new) retyping.change_timers(old, new, NAMES_AT) end,
  places = function(old, new) retyping.move_places(old, new, NAMES_AT) end,
}

local function retype()
  local old, new = ARGV.type, ARGV.new
  if ARGV.action == 'start' then return retyping.start(ARGV.how, old, new) end
  if ARGV.action == 'stragglers' then
    if call('HEXISTS', P .. 'types', new) == 0 or call('HEXISTS', P .. 'types', old) == 1 then return 0 end
    retyping.change_timers(old, new, NAMES_AT)
    local sent = forward(old, new)
    save_clock()
    return sent
  end
  local kind, its_type, its_new = changing.now()
  if not kind or its_type ~= old or its_new ~= new then return redis.error_reply('CHANGING another command has ended this change') end
  local result = ACTIONS[ARGV.action](old, new ~= '-' and new or nil)
  save_clock()
  return result == nil and 0 or result
end

register('retype', retype)
