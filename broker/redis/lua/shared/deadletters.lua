-- Dead letters: messages that failed for good, with the reason.
--
-- dead:<type>   stream  the seven fields of the entry, then reason, error, traceback, attempts, stream, entry, first, last, worker
-- tries:<type>  hash    see tries.lua
-- stats:<type>  hash    counters: done, retried, dead, released, reaped

-- `values` of an entry become a dead letter; `letter` has the reason, and what else is known.
local function bury(agent_type, suffix, id, values, letter)
  local fields = { entry_fields(unpack(values)) }
  local function add(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  add('reason', letter.reason)
  add('error', letter.error or '')
  add('traceback', letter.traceback or '')
  add('attempts', letter.attempts or 0)
  add('stream', suffix)
  add('entry', id)
  add('first', letter.first or text(now()))
  add('last', text(now()))
  add('worker', letter.worker or '')
  -- Ids of our clock: by the server's, two agent types may each bury a letter under one id within a millisecond, and which
  -- came first is lost.
  local entry = append_fields('dead:' .. agent_type, unpack(fields))
  save_clock() -- not every function that buries does so at its end
  keep_claim(values[BODY], 'dead:' .. agent_type .. ' ' .. entry)
  call('HDEL', P .. 'tries:' .. agent_type, suffix .. ' ' .. id)
  call('HINCRBY', P .. 'stats:' .. agent_type, 'dead', 1)
  event('dead', agent_type, values[ID], letter.reason)
end

-- A message that leaves with something else; where it can't go, it is a dead letter of `agent_type`.
local function send_or_bury(agent_type, suffix, due, id, kind, key, from, head, body)
  local wrong = try_send(suffix, due, id, kind, key, from, head, body)
  if wrong then
    bury(agent_type, suffix, '', { id, kind, key, from, text(now()), head, body }, { reason = 'unsendable', error = wrong })
  end
end

local DEAD_BODY, DEAD_FIELD = 65536, 1024 -- bytes of an entry that is no message, or too large, that its letter keeps

-- What a worker can't be given becomes a letter at once.
local function bury_junk(agent_type, suffix, id, flat, reason, worker)
  local values = entry_values(flat) or { id, '', '', '', '', '', table.concat(flat, ' ', 1, math.min(#flat, 64)) }
  if values[ID] == '' then values[ID] = id end
  for i = 1, BODY do values[i] = string.sub(values[i], 1, i == BODY and DEAD_BODY or DEAD_FIELD) end
  call('XACK', P .. suffix, agent_type, id)
  bury(agent_type, suffix, id, values, { reason = reason, worker = worker })
end
