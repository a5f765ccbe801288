-- Dead letters: messages that failed for good, with the reason.
--
-- dead:<type>   stream  the seven fields of the entry, then reason, error, traceback, attempts, stream, entry, first, last, worker
-- tries:<type>  hash    see tries.lua
-- stats:<type>  hash    counters: done, retried, dead, released, reaped

local ERROR_HEAD = '{"k":"reply","e":true}'

-- Text as JSON can hold it, whatever its bytes are.
local function plain(words_) return (string.gsub(words_, '[^\32-\126]', '?')) end

-- What callboard/broker/remote_errors.py reads as a DeadLetterError of callboard/broker/errors.py.
local function error_body(agent_type, reason)
  return cjson.encode({
    type = 'callboard.broker.errors.DeadLetterError', args = { agent_type, reason }, trace = '', text = reason,
    fields = { agent_type = agent_type, reason = reason } })
end

-- A request that is buried has no handler any more that would answer it. Nobody waits beyond its deadline, but a handler
-- that runs again may ask again: then its reply is kept.
local function answer_buried(agent_type, values, letter)
  local head = read_head(letter.head or values[HEAD])
  if head.k ~= 'request' or type(head.r) ~= 'string' then return end
  local is_late = type(head.d) == 'number' and head.d < now()
  if is_late and not head.j then return end
  local reason = plain(letter.reason .. (letter.error and letter.error ~= '' and ': ' .. letter.error or ''))
  -- guard: a request that is buried is answered
  reply_to_call(head.r, head.j and values[ID] or '', values[ID], 'error', '', ERROR_HEAD, error_body(agent_type, reason))
end

-- What is well-formed UTF-8 beyond ASCII; a space takes its place, so that what stands around it does not look like some.
local WELL_FORMED = { '[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]',
  '\237[\128-\159][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]' }

-- The text, as long as a reader of JSON takes it.
local function readable(words_)
  local rest = words_
  for i = 1, #WELL_FORMED do rest = string.gsub(rest, WELL_FORMED[i], ' ') end
  return string.find(rest, '[\128-\255]') and plain(words_) or words_
end

local send_or_bury

-- Its sender wants to hear of it: as callboard/broker/retry.py has it.
local function tell_sender(agent_type, suffix, values, letter, entry)
  local head = read_head(letter.head or values[HEAD])
  local sender, key = string.match(values[FROM], '^([^/]+)/(.*)$')
  if head.f ~= true or not sender or call('HEXISTS', P .. 'types', sender) == 0 then return end
  local recipient = (string.match(suffix, '^inbox:(.*)$') or agent_type) .. '/' .. values[KEY]
  local body = cjson.encode({
    message_id = readable(values[ID]), recipient = readable(recipient), type = readable(values[TYPE]),
    reason = readable(letter.reason), error = readable(letter.error or '') })
  local about = cjson.encode({ c = readable(values[ID]), u = type(head.u) == 'string' and head.u or nil })
  local inbox = 'inbox:' .. sender
  -- guard: who sent a message hears that it was buried
  send_or_bury(sender, inbox, 0, name_of('dead:' .. agent_type, entry), 'callboard.buried', key, readable(recipient), about, body)
  -- Not every function that buries announces at its end.
  mark_fresh(sender, { now_as_text(), inbox }, 'NX')
  ring(sender, 1)
end

-- `values` of an entry become a dead letter; `letter` has the reason, and what else is known. An error where it can't be kept.
local function bury(agent_type, suffix, id, values, letter)
  if values[ID] == '' then values[ID] = name_of(suffix, id) end
  if values[AT] == '' then values[AT] = string.match(id, '^%d+') or '' end
  local fields = { entry_fields(unpack(values)) }
  local function add(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  add('reason', letter.reason)
  add('error', letter.error or '')
  add('traceback', letter.traceback or '')
  add('attempts', letter.attempts or 0)
  add('stream', suffix)
  add('entry', id)
  add('first', letter.first or now_as_text())
  add('last', now_as_text())
  add('worker', letter.worker or '')
  -- Ids of our clock: by the server's, two agent types may each bury a letter under one id within a millisecond, and which
  -- came first is lost.
  local entry = append.with_fields('dead:' .. agent_type, unpack(fields))
  tell_sender(agent_type, suffix, values, letter, entry)
  save_clock() -- not every function that buries does so at its end
  keep_claim(values[BODY], 'dead:' .. agent_type .. ' ' .. entry)
  call('HDEL', P .. 'tries:' .. agent_type, suffix .. ' ' .. id)
  leave_questions('once:' .. agent_type .. ':' .. values[ID])
  call('HINCRBY', P .. 'stats:' .. agent_type, 'dead', 1)
  event('dead', agent_type, values[ID], letter.reason)
  if not letter.has_reply then answer_buried(agent_type, values, letter) end
end

-- The same, without an error: whether the letter is kept.
local function try_bury(agent_type, suffix, id, values, letter)
  local is_kept, wrong = pcall(bury, agent_type, suffix, id, values, letter)
  -- Left alone, the entry stays pending: a repair finds it once there is a place for its letter.
  if not is_kept then event('not buried', agent_type, suffix .. ' ' .. id, failure(wrong) or tostring(wrong)) end
  return is_kept
end

-- An entry that is pending becomes a letter, and is acknowledged then; else it stays pending, with nobody. Whether it is one.
local function bury_entry(agent_type, suffix, id, values, letter)
  local is_kept = try_bury(agent_type, suffix, id, values, letter)
  if is_kept then redis.pcall('XACK', P .. suffix, agent_type, id) else claim_for_none(agent_type, suffix, { id }) end
  return is_kept
end

local UNWRITABLE = 'unwritable' -- reason of letters: a key that their message needs is of the wrong type

-- Puts refs back in front of their agent; where they can't be parked they are dead letters.
local function park_or_bury(agent_type, key, refs)
  local is_parked, wrong = pcall(park_in_front, agent_type, key, refs)
  if is_parked then return end
  for i = 1, #refs do
    local suffix, id = split_ref(refs[i])
    bury_entry(agent_type, suffix, id, values_or_blank(suffix, id), { reason = UNWRITABLE, error = failure(wrong) or tostring(wrong) })
  end
end

local SEND_AGAIN = 30000 -- ms after which what could neither be sent nor buried is sent again

-- A message that can't leave is a dead letter of `agent_type`; where it can't be that either, it is sent again later.
local function bury_message(wrong, agent_type, suffix, id, kind, key, from, head, body)
  local values = { id, kind, key, from, now_as_text(), head, body }
  if try_bury(agent_type, suffix, '', values, { reason = 'unsendable', error = wrong }) then return end
  if try_send(suffix, SEND_AGAIN, id, kind, key, from, head, body) then event('lost', agent_type, id, wrong) end
end

-- A message that leaves with something else.
function send_or_bury(agent_type, suffix, due, id, kind, key, from, head, body)
  local wrong
  if due == 0 then
    wrong = try_send_now(suffix, id, kind, key, from, head, body)
  else
    wrong = try_send(suffix, due, id, kind, key, from, head, body)
  end
  if wrong then bury_message(wrong, agent_type, suffix, id, kind, key, from, head, body) end
end

local DEAD_BODY, DEAD_FIELD = 65536, 1024 -- bytes of an entry that is no message, or too large, that its letter keeps

-- What a worker can't be given becomes a letter at once.
local function bury_junk(agent_type, suffix, id, flat, reason, worker)
  local values = entry_values(flat) or { '', '', '', '', '', '', table.concat(flat, ' ', 1, math.min(#flat, 64)) }
  local head = values[HEAD]
  for i = 1, BODY do values[i] = string.sub(values[i], 1, i == BODY and DEAD_BODY or DEAD_FIELD) end
  bury_entry(agent_type, suffix, id, values, { reason = reason, worker = worker, head = head })
end
