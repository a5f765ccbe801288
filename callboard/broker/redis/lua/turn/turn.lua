-- One turn of a worker: commits what it finished (all or nothing per message), fires what is due, takes new work.
-- The files of this folder are its parts, in the order in which library.py names them.
--
-- ARGV: worker, number of the turn, number of its last call that was answered, its terms (see arguments.lua),
--   entries held besides the commits below, scan ('1': look at all streams, not only at those that are known to be fresh;
--   'b': the turn waited behind a bell),
--   accept (how many entries that are parked behind finished agents may be handed over)
--   entries wanted of each type
--   number of commits; they come in runs of the same stream: type, stream suffix, count, mode of all of them or '', entry ids, agent
--   keys, and where there is no mode of all: modes. Where a run is of several streams its suffix is '', and before the entry ids come
--   the suffixes
--   then, in the same order, what the marks of each mode bring: see callboard/broker/redis/library.py
-- Returns {'OK', server ms, next due ms or '', flags, number of the call before}, and where something is given
--   runs, deliveries, states; or, where it is one delivery without a state: type, suffix, message type, and its values. A turn that
--   waited tells no time unless something is due. Or {'STALE'}: a later call came first. Or {'FENCED'}: this worker was reaped, or the server does not know what it was answered, or does not hold what
--   it commits.
--   flags: 'm' a stream holds more, 's<deaths>' a suspect was given, or waits for a worker that holds nothing: take nothing
--     else until it is handled (deaths: beyond those after which it is tried alone), 'f<topic>' no agent type takes that topic
--   runs: type, suffix, message type, width, count: what so many deliveries have, one after the other, and their number of values
--   deliveries: entry id, id, key, body; where the width is 6: entry id, id, key, from, head, body; where it is 8: entry id, id, key,
--     from, head, tries or '', at or '' (the time of the entry's id), body; tries begins with '+' when the request was cancelled.
--     Where it is 5 or 7: as 4 or 6, and at the end the stream suffix, which their run leaves empty
--   states: four values each: number of the delivery, version, data or nil when this worker was the last to write it, and
--     what the state says of its logs or '', see shared/logs.lua; their items are read apart

-- The result; deliveries and states are there by now.
local function result_of(turn, due, full, last)
  if turn.next_token and (due == '' or turn.next_token < tonumber(due)) then due = text(turn.next_token) end
  local flags = turn.more and 'm' or ''
  if turn.suspicion or full then
    flags = flags .. (turn.suspicion and 's' .. turn.suspicion or '') .. (full and 'f' .. full or '')
  end
  -- From a turn that waited nobody learns the time; who is told when something is due has to know it.
  local time = (turn.scan ~= AT_BELL or due ~= '') and now_as_text() or ''
  -- A list costs what a command does, also when it is empty.
  if turn.given == 0 then return { 'OK', time, due, flags, last } end
  local runs, out = turn.runs, turn.out
  if turn.given == 1 and turn.states == NONE then
    return { 'OK', time, due, flags, last, runs[1], runs[2], runs[3], unpack(out) }
  end
  return { 'OK', time, due, flags, last, runs, out, turn.states }
end

-- New work for the worker, and the result.
local function take_new(turn, due, full, last)
  pull_all(turn)
  bulk_set(turn.own, turn.own_new)
  save_clock()
  if turn.is_bookless then return end_without_books(turn.worker) end
  return result_of(turn, due, full, last)
end

-- After a commit that came alone: mostly there is nothing new.
local function go_on_alone(worker, last)
  if ARGV.wanted == '0' or alone.fresh(terms_of(ARGV.terms)) == nil then return { 'OK', now_as_text(), '', '', last } end
  local turn = new_turn(worker)
  this.max_unclaimed, turn.commits, turn.is_calm = turn.terms.max_unclaimed, { n = 0 }, true
  return take_new(turn, '', nil, last)
end

local function take_turn()
  local worker = ARGV.worker
  local record = P .. 'worker:' .. worker
  local last = call('HGET', record, 'call')
  if this.unusable then return end_without_books(worker) end
  -- Its lease ended while it ran on, and what it held runs elsewhere: nothing of this turn may be written.
  -- guard: a reaped worker commits nothing
  if not last then return { 'FENCED' } end
  -- Mostly its last call is the one that was answered last.
  local is_next = last == ARGV.answered and ARGV.number - ARGV.answered > 0
  -- guard: a turn of a worker that knows more than the server is refused
  if not is_next and is_behind(last, ARGV.answered) then return disown(worker, 'the server lost a tail') end
  -- The connection broke, the worker went on with a later turn, and this one was only delayed.
  -- guard: a copy of an older turn is refused
  if not is_next and tonumber(last) >= tonumber(ARGV.number) then return { 'STALE' } end
  if ARGV.scan == AT_BELL then
    -- guard: what a bell brought is not known to have been heard
    call('HSET', record, 'call', ARGV.number, 'brought', ARGV.number)
    local brought = alone.take(worker, last)
    if brought then return brought end
  else
    -- guard: the number of a turn is kept
    call('HSET', record, 'call', ARGV.number)
    if ARGV.scan == '' and alone.commit(worker) then return go_on_alone(worker, last) end
  end
  local turn = new_turn(worker)
  this.max_unclaimed = turn.terms.max_unclaimed
  read_commits(turn)
  -- guard: only what is held is committed
  if not holds_all(turn) then return disown(worker, 'it commits what it does not hold') end
  -- guard: a worker whose states were replaced begins anew
  if turn.has_logs and not effects.fit(turn) then return disown(worker, 'it appends to a state that was replaced') end
  look_around(turn)
  commit_all(turn)
  local due = fire_due(turn.next_due)
  local full = announce(this.max_unclaimed)
  return take_new(turn, due, full, last)
end

register('turn', take_turn)
