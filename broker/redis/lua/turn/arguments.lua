-- What belongs to one turn, in one table that is passed from function to function:
--
-- worker, max_body, held, scan           arguments, see turn.lua; `at` is the reading position in ARGV
-- accept                                 parked entries that may still be handed over
-- handed                                 entries that were
-- bytes                                  of the bodies in `out`
-- streams                                that were read
-- type_names, and by agent type: wanted (entries), persistent, rate (most a second, or nil), books (see new.lua)
-- any_parked, any_busy                   by agent type: something is parked behind an agent, some agent is busy
-- is_calm, next_due                      there is nothing but new entries, see exceptions.lua; when the next timer is due, ms
-- is_quiet                               there is nothing to take but new entries, see pull.lua
-- is_bookless                            the worker's own keys can't be used
-- paused, any_cancelled, resumed  what keeps entries from being handled as usual, see exceptions.lua
-- commits                                what is committed, see commit.lua
-- has_logs                               some commit appends to the logs of a state
-- void                                   the request of the commit that is being written was cancelled
-- own_claim                              blob that the message of the commit came with, or ''
-- returned, returned_order               agents that go back: by `<type> <key>` and in order, see effects.lua
-- runs, out, out_n, more_of, states      deliveries and states of the result, see turn.lua, and the number of values in `out`
-- run_n                                  the number of values in `runs`
-- own_new, own_n                         field, value, ... for own:<worker>, and their number
-- more, suspicion                        flags of the result
-- next_token                             when a type's rate limit lets the next entry pass, ms

local DELIVERY = 4 -- values of one delivery in `out`

local function new_turn()
  return {
    worker = ARGV[1], max_body = tonumber(ARGV[4]), held = tonumber(ARGV[6]), scan = ARGV[7] == '1', is_at_bell = ARGV[7] == 'b',
    accept = tonumber(ARGV[8]), handed = 0, bytes = 0, streams = 0,
    at = 9, type_names = {}, wanted = {}, persistent = {}, rate = {}, books = {}, any_parked = {}, any_busy = {},
    returned = {}, returned_order = {},
    runs = {}, run_n = 0, out = {}, out_n = 0, more_of = {}, states = {}, own_new = {}, own_n = 0,
  }
end

local function read(turn)
  local at = turn.at
  turn.at = at + 1
  return ARGV[at]
end

local function read_types(turn)
  for _ = 1, tonumber(read(turn)) do
    local agent_type = read(turn)
    turn.type_names[#turn.type_names + 1] = agent_type
    turn.wanted[agent_type] = tonumber(read(turn))
    turn.persistent[agent_type] = read(turn) == '1'
    turn.rate[agent_type] = tonumber(read(turn))
  end
end
