-- A worker's beat: extends its lease, reaps workers whose lease ended, fires timers, trims what all groups have handled: all
-- of it when the server's memory is full, else what goes beyond `retain`; and takes away large bodies that nothing points to.
--
-- The files of this folder are its parts, in the order in which library.py names them.
--
-- workers, worker:<worker>, beats  see workers.lua
--
-- ARGV: worker, lease (ms), retain (entries), max_unclaimed, held, running, number of its last call that was answered,
--   forget_topics_after (ms, 0: never), running by agent type (`<type> <n> <type> <n> ...`), what blocks its event loop, or ''
-- Returns {'OK', server ms, workers reaped, 1 when there is more to do soon}, or {'FENCED'} as in turn/turn.lua.

local AT_ONCE, MOST_RETURNED = 8, 250 -- workers that are reaped in one beat; entries, for one of another process

-- What many workers held is given back in several beats; those of one process go together, see reap_dead().
local function as_many_as_fit(workers)
  local list, processes, held = {}, {}, 0
  for i = 1, #workers do
    local process = process_of(workers[i])
    held = held + call('HLEN', P .. 'own:' .. workers[i])
    if i > 1 and held > MOST_RETURNED and not processes[process] then return list end
    list[i], processes[process] = workers[i], true
  end
  return list
end

local function reap_expired(lease, before)
  -- guard: a beat reaps nobody else
  local expired = call('ZRANGEBYSCORE', P .. 'workers', '-inf', '(' .. text(before), 'LIMIT', 0, AT_ONCE)
  if #expired == 0 then return 0, false end
  -- Another worker of the same process may have beaten a little later: it has died with it, unless it goes on beating.
  local silent = call('ZRANGEBYSCORE', P .. 'workers', '-inf', text(now() + lease / 2))
  -- guard: a beat reaps whose lease ended
  local fitting = as_many_as_fit(expired)
  reap_dead(fitting, silent)
  return #fitting, #fitting < #expired or #expired == AT_ONCE
end

-- Whether the server has forgotten what a worker declared before it joined: it does so again before it joins again.
local function are_forgotten(types)
  local lines = #types > 0 and call('HMGET', P .. 'types', unpack(types)) or {}
  for i = 1, #lines do
    if not lines[i] then return true end
  end
  return false
end

-- What a worker says of itself with a beat.
local function note_pulse(worker, held, running, heard, runs, blocked)
  call('HSET', P .. 'worker:' .. worker, 'held', held, 'running', running, 'heard', heard, 'runs', runs)
  if blocked ~= '' then call('HSET', P .. 'worker:' .. worker, 'blocked', text(now()) .. ' ' .. blocked) end
end

local function beat()
  local worker, lease, retain, max_unclaimed = ARGV.worker, tonumber(ARGV.lease), tonumber(ARGV.retain), tonumber(ARGV.max_unclaimed)
  -- guard: a beat does not bring back a reaped worker
  if not must('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end
  -- An idle worker makes no other call, and what it runs may take an hour.
  -- guard: a beat of a worker that knows more than the server is refused
  if is_behind(call('HGET', P .. 'worker:' .. worker, 'call'), ARGV.answered) then return disown(worker, 'the server lost a tail') end
  local types = words(call('HGET', P .. 'worker:' .. worker, 'types') or '')
  -- guard: a worker whose types were forgotten declares them again
  if are_forgotten(types) then return disown(worker, 'its agent types are not declared any more') end
  -- guard: a beat renews the lease
  call('ZADD', P .. 'workers', text(now() + lease), worker)
  note_pulse(worker, ARGV.held, ARGV.running, ARGV.answered or '0', ARGV.types or '', ARGV.blocked or '')
  this.max_unclaimed = ARGV.max_unclaimed
  local reaped, more = reap_expired(lease, sign_of_life(lease))
  fire_due(next_due())
  local left = do_chores()
  -- It gets on beside chores, however many there are.
  local entries = math.max(PAGE, SWEEP - (this.looked_at or 0))
  local tidy = { retain = retain, full = memory_is_full(), entries = entries, bytes = MOST_BYTES, streams = 4 * STREAMS,
    adopted = being_adopted(), forget = tonumber(ARGV.forget or 0) }
  look_at_streams(tidy, types)
  look_at_leaving(max_unclaimed)
  look_at_claims()
  call('ZREMRANGEBYSCORE', P .. 'cancelled', '-inf', text(now() - 1))
  announce(max_unclaimed)
  save_clock()
  return { 'OK', now_as_text(), reaped, (more or left or tidy.more) and 1 or 0 }
end

register('beat', beat)
