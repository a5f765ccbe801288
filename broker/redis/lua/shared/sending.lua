-- Messages that leave: to a stream, now or later, each once.
--
-- timers, timer:<id>     zset, hashes  what is due later
-- dedupe:<bucket>        set           idempotency ids, two rotating buckets
-- once:<type>:<message>  hash          `><id>`: what the handler of that message sent at once, before its commit

local function remember_timer(id, due, suffix, ...)
  call('HSET', P .. 'timer:' .. id, 'stream', suffix, ...)
  local head = call('ZRANGE', P .. 'timers', 0, 0, 'WITHSCORES')
  call('ZADD', P .. 'timers', text(due), 'm|' .. id)
  -- Idle workers sleep until the next timer they know of: one that is due earlier has to wake them.
  if not head[2] or due < tonumber(head[2]) then
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
    remember_timer(id, due, suffix, entry_fields(id, kind, key, from, text(now()), head, body))
    if this.claims then keep_claim(body, 'timer:' .. id) end
    return
  end
  touch(suffix)
  local entry = append(suffix, id, kind, key, from, head, body)
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

-- Whether something with this idempotency id was sent before. The id of a person or program counts in the whole
-- namespace, for the window (ms). `><type>:<message>|<id>` counts among what one handler sends at once, until the
-- message it handles is committed.
local function seen(idem, window)
  local scope, id = string.match(idem, '^>(.*)|([^|]*)$')
  if scope then
    -- guard: what a handler sends at once is sent by one attempt
    if call('HSETNX', P .. 'once:' .. scope, '>' .. id, '1') == 0 then return true end
    call('PEXPIRE', P .. 'once:' .. scope, text(window))
    return false
  end
  local bucket = math.floor(now() / window)
  local current, last = P .. 'dedupe:' .. text(bucket), P .. 'dedupe:' .. text(bucket - 1)
  -- An id that came a moment before the turn of the window stands in the last bucket only.
  -- guard: an idempotency id is known over the turn of a window
  if call('SISMEMBER', last, idem) == 1 then return true end
  -- guard: an idempotency id is accepted once
  if call('SADD', current, idem) == 0 then return true end
  call('PEXPIRE', current, text(window * 2))
  return false
end

-- What was seen could not be sent: it may come again.
local function unsee(idem, window)
  local scope, id = string.match(idem, '^>(.*)|([^|]*)$')
  if scope then return call('HDEL', P .. 'once:' .. scope, '>' .. id) end
  call('SREM', P .. 'dedupe:' .. text(math.floor(now() / window)), idem)
end
