-- Schedules: what is sent at certain times, once for each of them however many processes look.
--
-- schedules  hash  `declared <name>` -> what its app says of it, as JSON; `app <name>`; `next <name>` -> `<ms> <digest>`: when it
--                  is due next, and by which timetable; `paused <name>` -> when (ms) and by whom; `sent <name>` -> when
--                  something was sent last, ms; `count <name>`: how often; `declares <app>` -> how often it declared its own

local firing = {}

-- The idempotency id of a firing: name, what is due as its process believes, and what is due then.
function firing.read(idem) return string.match(idem, '^>@([^|]*)|([^|]*)|([^|]*)$') end

-- Whether a schedule is not due as a process believes. Else the next due time is another one from now on.
function firing.is_not_due(name, expected, following)
  local all = P .. 'schedules'
  -- guard: what is paused fires nothing
  if call('HEXISTS', all, 'paused ' .. name) == 1 then return true end
  -- guard: each due time fires once
  if call('HGET', all, 'next ' .. name) ~= expected then return true end
  must('HSET', all, 'next ' .. name, following)
  return false
end

-- Whether another process has fired this already. What comes of the firing and its due time are one call.
function firing.is_done(name, expected, following)
  if firing.is_not_due(name, expected, following) then return true end
  must('HSET', P .. 'schedules', 'sent ' .. name, now_as_text())
  call('HINCRBY', P .. 'schedules', 'count ' .. name, '1')
  return false
end

-- What was to be sent can't be: it stays due.
function firing.take_back(name, expected)
  call('HSET', P .. 'schedules', 'next ' .. name, expected)
  call('HINCRBY', P .. 'schedules', 'count ' .. name, '-1')
end
