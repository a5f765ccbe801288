-- Requests and their replies.
--
-- reply:<process>  stream  replies to one process
-- call:<id>        hash    a request that may be sent again: its requester's process (`to`), the reply once there is one

local REPLY_KEPT = 60 -- seconds

local function send_to_process(process, id, kind, key, from, head, body)
  local stream = P .. 'reply:' .. process
  call('XADD', stream, 'MAXLEN', '~', 100000, '*', entry_fields(id, kind, key, from, text(now()), head, body))
  call('EXPIRE', stream, REPLY_KEPT)
end

local function send_reply(process, id, kind, from, head, body)
  send_to_process(process, id, kind, '', from, head, body)
end

-- Tells a process that something came for a request it waits for; what has a key is no reply.
local function send_notice(process, ask) send_to_process(process, ask, 'nested', ask, '', '', '') end

local function begin_call(id, process, window)
  call('HSET', P .. 'call:' .. id, 'to', process)
  call('PEXPIRE', P .. 'call:' .. id, text(window))
end

-- A handler that runs again asks again: it gets the recorded reply, or takes the place of the attempt that waited.
local function wait_again(id, process, window)
  begin_call(id, process, window)
  local reply = call('HMGET', P .. 'call:' .. id, 'id', 'type', 'from', 'head', 'body')
  if reply[1] then send_reply(process, unpack(reply)) end
end

-- A reply; with a call id it is kept for another attempt of the requester.
local function reply_to_call(process, call_id, id, kind, from, head, body)
  local kept_for = REPLY_KEPT * 1000
  if call_id ~= '' then
    local record = P .. 'call:' .. call_id
    local to = call('HGET', record, 'to')
    -- Without a record its time is over, or the requester's message is committed: nothing asks again, and nothing
    -- would end a record made now.
    if to then call('HSET', record, 'id', id, 'type', kind, 'from', from, 'head', head, 'body', body) end
    process = to or process
    if this.claims then kept_for = math.max(kept_for, call('PTTL', record)) end
  end
  if this.claims then lend_claim(body, kept_for) end
  send_reply(process, id, kind, from, head, body)
end
