-- What an app says of its schedules when a process of it starts, and what becomes of them later.
--
-- schedules  hash  see schedules.lua
--
-- ARGV: 'declare', app, then for each of its schedules: name, what it says of it, digest of its timetable, first due time (ms)
--       'pass', name, what is due, what is due instead: nothing is sent
--       'pause', name, when (ms) and by whom; 'resume', name; 'remove', name
-- Returns 1 when something changed, else 0; for 'declare': how often this app did so, or 0 when a first due time came too late,
-- and has to be given anew.

local KINDS = { 'declared ', 'app ', 'next ', 'paused ', 'sent ', 'count ' }

local function forget_schedule(name)
  local fields = {}
  for i = 1, #KINDS do fields[i] = KINDS[i] .. name end
  return call('HDEL', P .. 'schedules', unpack(fields))
end

-- A timetable that is as it was goes on: what fell due meanwhile is not forgotten. Returns whether the due time is one that
-- is still to come: its process may have stood still since it looked at the clock, while another one sent what was due then.
local function declare_schedule(app, name, said, digest, first)
  local all = P .. 'schedules'
  call('HSET', all, 'declared ' .. name, said, 'app ' .. name, app)
  local due = call('HGET', all, 'next ' .. name)
  -- guard: a process that starts does not set the clock of a schedule back
  if due and string.match(due, ' (.*)$') == digest then return true end
  -- guard: what was sent is not due again by another timetable
  if tonumber(first) <= tonumber(call('HGET', all, 'sent ' .. name) or 0) then return false end
  call('HSET', all, 'next ' .. name, first .. ' ' .. digest)
  return true
end

-- A process whose number is above that of the server knows that what it declared was lost.
local function count_declaration(app, known)
  local count = (tonumber(known['declares ' .. app] or 0) or 0) + 1
  call('HSET', P .. 'schedules', 'declares ' .. app, text(count))
  return count
end

-- Those that an app does not declare any more end with the first process that says so.
local function declare_schedules(app)
  local kept, known, done = {}, by_name(call('HGETALL', P .. 'schedules')), true
  for i = DECLARED_AT, #ARGV, SCHEDULE_WIDTH do
    local name, said = ARGV[i], ARGV[i + SCHEDULE_SAID]
    kept[name] = true
    if not declare_schedule(app, name, said, ARGV[i + SCHEDULE_DIGEST], ARGV[i + SCHEDULE_FIRST]) then done = false end
  end
  for field, value in pairs(known) do
    local name = string.match(field, '^app (.*)$')
    if name and value == app and not kept[name] then forget_schedule(name) end
  end
  return done and count_declaration(app, known) or 0
end

local ORDERS = {
  pass = function(name) return firing.is_not_due(name, ARGV.due, ARGV.instead) and 0 or 1 end,
  pause = function(name)
    if call('HEXISTS', P .. 'schedules', 'declared ' .. name) == 0 then return 0 end
    return call('HSETNX', P .. 'schedules', 'paused ' .. name, ARGV.paused)
  end,
  resume = function(name) return call('HDEL', P .. 'schedules', 'paused ' .. name) end,
  remove = function(name) return forget_schedule(name) > 0 and 1 or 0 end,
}

register('schedule', function()
  if ARGV.action == 'declare' then return declare_schedules(ARGV.app) end
  return ORDERS[ARGV.action](ARGV.name)
end)
