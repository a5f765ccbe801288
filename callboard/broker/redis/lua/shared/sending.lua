-- Messages that leave: to a stream, now or later, each once.
--
-- timers, timer:<name>   zset, hashes  what is due later, see timers.lua
-- dedupe                 zset          idempotency id -> until when it is remembered, server ms
-- schedules              hash          see schedules.lua
-- once:<type>:<message>  hash          `><id>`: what the handler of that message sent at once, before its commit

local function remember_timer(name, due, suffix, ...)
  must('HSET', P .. 'timer:' .. name, 'stream', suffix, ...)
  local is_first = must('ZCOUNT', P .. 'timers', '-inf', text(due)) == 0
  call('ZADD', P .. 'timers', text(due), 'm|' .. name)
  this.has_timers = true
  -- Idle workers sleep until the next timer they know of: one that is due earlier has to wake them.
  if is_first then
    local types = receivers(suffix)
    for i = 1, #types do ring(types[i], 1) end
  end
end

-- One message to a stream, now or later. `due`: 0 is now, above it counts ms from now, below it is, without its sign, a
-- time of the server's clock.
local function send(suffix, due, id, kind, key, from, head, body)
  -- guard: a time of the clock is no delay
  due = due > 0 and now() + due or -due
  -- guard: what is due later waits
  if due > now() then
    -- By the clock of the namespace, not by the message: its id may come again, once it is forgotten. What is due at the
    -- same time leaves in the order of these names.
    -- guard: a delayed message takes the place of no other
    local name = sortable((next_id()))
    remember_timer(name, due, suffix, entry_fields(id, kind, key, from, now_as_text(), head, body))
    if this.claims then keep_claim(body, 'timer:' .. name) end
    return
  end
  touch(suffix)
  local entry = append.message(suffix, id, kind, key, from, head, body)
  if this.claims then keep_claim(body, suffix .. ' ' .. entry) end
end

-- Like send(). A key of another kind, or a stream whose last possible id was used by hand, must not end a call half
-- way: what was written would stay, what was to be written would be lost. Returns the text of the error, or nil.
local function try_send(suffix, ...)
  local sent, wrong = pcall(send, suffix, ...)
  if sent then return nil end
  this.touched[suffix] = nil
  return failure(wrong) or tostring(wrong)
end

-- The same for a message that leaves now: mostly to a stream of which the call knows already that it takes messages.
local function try_send_now(suffix, id, kind, key, from, head, body)
  local touched = this.touched
  local count = touched[suffix]
  if not count or this.claims or not append.at_once(suffix, id, kind, key, from, head, body) then
    return try_send(suffix, 0, id, kind, key, from, head, body)
  end
  touched[suffix] = count + 1
end

local FORGOTTEN = 4 -- ids whose time is over that go with each new one: more than come, and few enough for a call

-- Whether an id is remembered; from now on it is, for this window (ms). How long is said with each id, since processes may
-- have different windows while a deployment rolls.
local function is_remembered(idem, window)
  local ids, over = P .. 'dedupe', now() + window
  -- guard: an idempotency id is accepted once
  if must('ZADD', ids, 'NX', text(over), idem) == 0 then
    if tonumber(call('ZSCORE', ids, idem)) > now() then return true end
    call('ZADD', ids, text(over), idem)
  end
  bulk('ZREM', ids, call('ZRANGEBYSCORE', ids, '-inf', now_as_text(), 'LIMIT', 0, FORGOTTEN))
  -- It may never be shorter than what another process asked for.
  -- guard: ids stay as long as each of them is remembered
  if call('PTTL', ids) < window then call('PEXPIRE', ids, text(2 * window)) end
  return false
end

-- Whether something with this idempotency id was sent before; an error where that can't be known. The id of a person or
-- program counts in the whole namespace, for the window (ms). `><type>:<message>|<id>` counts among what one handler sends at once, until the
-- message it handles is committed. `>@<schedule>|...` is what a schedule sends.
local function seen(idem, window)
  local schedule, expected, following = firing.read(idem)
  if schedule then return firing.is_done(schedule, expected, following) end
  local scope, id = string.match(idem, '^>(.*)|([^|]*)$')
  if scope then
    -- guard: what a handler sends at once is sent by one attempt
    if must('HSETNX', P .. 'once:' .. scope, '>' .. id, '1') == 0 then return true end
    keep_at_least(P .. 'once:' .. scope, text(window))
    return false
  end
  return is_remembered(idem, window)
end

-- What was seen could not be sent: it may come again.
local function unsee(idem)
  local schedule, expected = firing.read(idem)
  if schedule then return firing.take_back(schedule, expected) end
  local scope, id = string.match(idem, '^>(.*)|([^|]*)$')
  if scope then return call('HDEL', P .. 'once:' .. scope, '>' .. id) end
  call('ZREM', P .. 'dedupe', idem)
end
