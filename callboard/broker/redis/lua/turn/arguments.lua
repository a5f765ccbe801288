-- What belongs to one turn, in one table that is passed from function to function:
--
-- terms                                  under which the worker works: what is the same from turn to turn, see below
-- worker, own, held, scan                arguments, see turn.lua, and the key of what it holds; `at` is the reading position in ARGV
-- accept                                 parked entries that may still be handed over
-- handed                                 entries that were
-- bytes                                  of the bodies in `out`
-- streams                                that were read
-- wanted                                 entries of each type
-- books, any_parked, any_busy            by agent type, once that was looked at, see new.lua: its books can be used; something is
--                                        parked behind an agent; some agent is busy
-- is_calm, next_due                      there is nothing but new entries, see exceptions.lua; when the next timer is due, ms
-- is_quiet                               there is nothing to take but new entries, see pull.lua
-- is_bookless                            the worker's own keys can't be used
-- paused, any_cancelled, resumed  what keeps entries from being handled as usual, see exceptions.lua
-- commits                                what is committed, see commit.lua
-- has_logs                               some commit appends to the logs of a state
-- void                                   the request of the commit that is being written was cancelled
-- own_claim                              blob that the message of the commit came with, or ''
-- returned, returned_order               agents that go back: by `<type> <key>` and in order, see effects.lua
-- runs, out, states                      deliveries and states of the result, see turn.lua
-- given, out_n, run_n                    the number of deliveries, and of values in `out` and `runs`
-- is_apart                               what is given goes from stream to stream, and names its own, see take.lua
-- own_new, own_n                         field, value, ... for own:<worker>, and their number
-- more, suspicion                        flags of the result
-- next_token                             when a type's rate limit lets the next entry pass, ms

local SCAN, AT_BELL = '1', 'b' -- all streams are looked at; the turn waited behind a bell
local NONE = {} -- stands for what is mostly empty, until there is something; all turns share it, so nothing is written there

-- The terms of a worker come as one text, which is read when it comes for the first time: `<max payload> <max_unclaimed>`, then for
-- each type ` <type> <1 if persistent, else 0> <most a second, or ->`. By prefix and text:
--
-- max_body, max_unclaimed  bytes; entries, as text
-- types                    their names
-- persistent, rate         by type; false where it is not so, and has no limit
-- keys                     by type: names of its keys
-- around, waiting          keys of all types that are mostly not there, see exceptions.lua
-- bare                     the same, and who is busy, see alone.lua
local KNOWN, MOST_KNOWN = {}, 500
local known_n = 0

local function new_keys(agent_type)
  return { busy = P .. 'busy:' .. agent_type, parked = P .. 'parked:' .. agent_type, fresh = P .. 'fresh:' .. agent_type,
    cursor = P .. 'cursor:' .. agent_type, stats = P .. 'stats:' .. agent_type }
end

local WAITING = { 'suspects:', 'ready:', 'newer:', 'early:' }

local function read_terms(line)
  local max_body, max_unclaimed, rest = string.match(line, '^(%S+) (%S+)(.*)$')
  local terms = { max_body = tonumber(max_body), max_unclaimed = max_unclaimed, types = {}, persistent = {}, rate = {}, keys = {},
    around = { P .. 'timers', P .. 'paused', P .. 'cancelled', P .. 'resumed' }, waiting = {}, bare = {} }
  for agent_type, is_persistent, rate in string.gmatch(rest, ' (%S+) (%S+) (%S+)') do
    terms.types[#terms.types + 1] = agent_type
    terms.persistent[agent_type], terms.rate[agent_type] = is_persistent == '1', tonumber(rate) or false
    terms.keys[agent_type] = new_keys(agent_type)
    terms.around[#terms.around + 1] = P .. 'parked:' .. agent_type
    for i = 1, #WAITING do
      local key = P .. WAITING[i] .. agent_type
      terms.around[#terms.around + 1], terms.waiting[#terms.waiting + 1] = key, key
    end
    terms.bare[#terms.bare + 1] = terms.keys[agent_type].busy
  end
  for i = 1, #terms.around do terms.bare[#terms.bare + 1] = terms.around[i] end
  return terms
end

local function terms_of(line)
  local of_namespace = KNOWN[P]
  local terms = of_namespace and of_namespace[line]
  if terms then return terms end
  if known_n >= MOST_KNOWN then KNOWN, known_n, of_namespace = {}, 0, nil end
  terms, known_n = read_terms(line), known_n + 1
  if not of_namespace then
    of_namespace = {}
    KNOWN[P] = of_namespace
  end
  of_namespace[line] = terms
  return terms
end

-- Names of keys of a type; a worker may commit of one of which it takes nothing.
local function keys_for(turn, agent_type)
  local keys = turn.terms.keys[agent_type]
  if not keys then
    keys = new_keys(agent_type)
    turn.terms.keys[agent_type] = keys
  end
  return keys
end

-- In this way the table has room for all that comes later, too: to make it larger takes as long as a command.
local function new_turn(worker)
  return {
    terms = terms_of(ARGV.terms), worker = worker, own = P .. 'own:' .. worker, held = number_of(ARGV.held), scan = ARGV.scan,
    accept = number_of(ARGV.accept), handed = 0, bytes = 0, streams = 0, wanted = number_of(ARGV.wanted), at = COUNT_AT,
    books = NONE, any_parked = NONE, any_busy = NONE, returned = NONE, returned_order = NONE,
    given = 0, runs = NONE, run_n = 0, out = NONE, out_n = 0, states = NONE, own_new = NONE, own_n = 0, is_apart = false,
  }
end

local function read(turn)
  local at = turn.at
  turn.at = at + 1
  return ARGV[at]
end
