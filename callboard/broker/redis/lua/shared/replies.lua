-- Requests and their replies.
--
-- reply:<process>  stream  replies to one process
-- call:<id>        hash    a request that may be sent again: the processes that wait (`to`), the reply once there is one

local REPLY_KEPT = '60' -- seconds
local MOST_WAITING = 16 -- processes that may wait for the reply to one request; of more, the last ones

-- Streams that were cut, and told how long they are kept, a moment ago: when, server ms. Stays from call to call.
local A_MOMENT, MOST_LOOKED_AFTER = 1000, 1000
local looked_after, looked_after_n = {}, 0

-- Adds to a stream of which that is known, if it is still there.
local function add_at_once(stream, id, kind, key, from, head, body)
  local since = looked_after[stream]
  if not since or now() - since > A_MOMENT or now() < since then return false end
  -- guard: a stream of replies that is gone is made as a new one
  return redis.pcall('XADD', stream, 'NOMKSTREAM', '*', 'id', id, 'type', kind, 'key', key, 'from', from, 'at', now_as_text(),
    'head', head, 'body', body)
end

local function send_to_process(process, id, kind, key, from, head, body)
  local stream = P .. 'reply:' .. process
  local added = add_at_once(stream, id, kind, key, from, head, body)
  if added and not added.err then return end
  call('XADD', stream, 'MAXLEN', '~', '100000', '*', entry_fields(id, kind, key, from, now_as_text(), head, body))
  -- guard: a stream of replies does not stay for ever
  call('EXPIRE', stream, REPLY_KEPT)
  if looked_after_n >= MOST_LOOKED_AFTER then looked_after, looked_after_n = {}, 0 end
  looked_after[stream], looked_after_n = now(), looked_after_n + 1
end

local function send_reply(process, id, kind, from, head, body)
  send_to_process(process, id, kind, '', from, head, body)
end

-- Tells those that wait for a request that something came for it; what has a key is no reply.
local function send_notice(to, ask)
  for _, process in ipairs(words(to)) do send_to_process(process, ask, 'nested', ask, '', '', '') end
end

local function begin_call(id, to, window)
  call('HSET', P .. 'call:' .. id, 'to', to)
  call('PEXPIRE', P .. 'call:' .. id, text(window))
end

-- Those that wait, and one more. A handler that runs again in another process leaves the place of the first there: nobody
-- can tell whether it still waits, and a reply to a process that is gone expires with its stream.
local function with_process(to, process)
  local waiting = words(to or '')
  if not contains(waiting, process) then waiting[#waiting + 1] = process end
  return table.concat(waiting, ' ', math.max(1, #waiting - MOST_WAITING + 1))
end

-- The same request is asked again, by a handler that runs again or by another process: both get the reply, which may be
-- there already.
local function wait_again(id, process, window)
  local known = call('HMGET', P .. 'call:' .. id, 'to', 'id', 'type', 'from', 'head', 'body')
  -- guard: who asks again takes nobody's place
  local to = with_process(known[1], process)
  call('HSET', P .. 'call:' .. id, 'to', to)
  keep_at_least(P .. 'call:' .. id, text(window))
  if known[2] then send_reply(process, unpack(known, 2, 6)) end
end

-- A reply; with a call id it is kept for another attempt of the requester.
local function reply_to_call(process, call_id, id, kind, from, head, body)
  local kept_for = tonumber(REPLY_KEPT) * 1000
  if call_id ~= '' then
    local record = P .. 'call:' .. call_id
    local to = call('HGET', record, 'to')
    -- Without a record its time is over, or the requester's message is committed: nothing asks again, and nothing
    -- would end a record made now.
    if to then call('HSET', record, 'id', id, 'type', kind, 'from', from, 'head', head, 'body', body) end
    process = to or process -- several, with spaces between
    if this.claims then kept_for = math.max(kept_for, call('PTTL', record)) end
  end
  if this.claims then lend_claim(body, kept_for) end
  if call_id == '' or string.find(process, '^%S+$') then return send_reply(process, id, kind, from, head, body) end
  for _, each in ipairs(words(process)) do send_reply(each, id, kind, from, head, body) end
end
