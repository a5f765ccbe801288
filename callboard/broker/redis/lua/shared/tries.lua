-- What is known of entries that were tried before, and who has to be tried alone.
--
-- tries:<type>     hash  ref -> `<attempts> <first ms> <deaths> <reason>`. Attempts are known; deaths are those of workers that
--                        held the entry among others: it, or any of the others, may have ended them
-- suspects:<type>  list  keys whose first entry is tried alone: its next death, if there is one, is known to be its own

-- The limit that the agent type was declared with.
local function max_attempts(agent_type)
  this.limits = this.limits or {}
  if not this.limits[agent_type] then
    local line = call('HGET', P .. 'types', agent_type)
    local is_json, settings = pcall(cjson.decode, line or '')
    this.limits[agent_type] = is_json and type(settings) == 'table' and tonumber(settings.max_attempts) or 3
  end
  return this.limits[agent_type]
end

-- Deaths after which an entry is tried alone: one less than the attempts it has, and at least one.
local function deaths_allowed(agent_type) return math.max(1, max_attempts(agent_type) - 1) end

-- Attempts, time of the first, deaths. Of an entry that was never tried: 0, now, 0.
local function read_tries(line)
  local attempts, first = string.match(line or '', '^(%d+) (%d+)')
  local deaths = string.match(line or '', '^%d+ %d+ (%d+) ')
  return tonumber(attempts or 0), first or now_as_text(), tonumber(deaths or 0)
end

local function tries_line(attempts, first, deaths, reason)
  return attempts .. ' ' .. first .. ' ' .. deaths .. ' ' .. reason
end

-- Nil for an entry that may run beside others; else by how many deaths it is beyond what is allowed.
local function suspicion(agent_type, line)
  if not line or line == '' then return nil end
  local _, _, deaths = read_tries(line)
  local beyond = deaths > 0 and deaths - deaths_allowed(agent_type) or -1
  return beyond >= 0 and beyond or nil
end

-- The same for the first of what is parked behind an agent.
local function first_suspicion(agent_type, key)
  local first = call('LINDEX', P .. 'wait:' .. agent_type .. ':' .. key, 0)
  return first and suspicion(agent_type, call('HGET', P .. 'tries:' .. agent_type, first))
end

-- The agent waits for a worker that holds nothing else. The newest comes first: it may be what one before it asked for. Tried
-- first, a request is alone, and answered or buried when who asked is tried; the other way round they would be held together.
local function make_suspect(agent_type, key)
  call('HSET', P .. 'busy:' .. agent_type, key, '')
  -- guard: of suspects the newest is tried first
  call('LPUSH', P .. 'suspects:' .. agent_type, key)
  ring(agent_type, 1)
end

-- What a death leaves as the reason. For how long a message has waited for an outage to end (see callboard/broker/errors.py) is
-- not forgotten with a worker, or where workers die now and then it would wait for ever.
local function reason_after(line, death)
  -- guard: what was waited for an outage outlives its worker
  return string.match(line or '', '^%d+ %d+ %d+ (outage .*)$') or death
end

-- The worker held this entry and no other, so this is what ended it. Returns the number of attempts and the time of the first.
local function count_attempt(agent_type, ref)
  local tries = P .. 'tries:' .. agent_type
  local line = call('HGET', tries, ref)
  local attempts, first, deaths = read_tries(line)
  -- guard: a death counts an attempt
  attempts = attempts + 1
  -- guard: what ended its worker is tried alone
  deaths = math.max(deaths, deaths_allowed(agent_type))
  call('HSET', tries, ref, tries_line(attempts, first, deaths, reason_after(line, 'its worker died or lost its lease')))
  return attempts, first
end

local AMONG_OTHERS = 'a worker that held it died or lost its lease'

-- The worker held these entries and others. Each may be what ended it: a worker begins with the next entry of an agent before
-- it has told of the one before, so that not even the first one of each agent is known to have run.
local function count_deaths(agent_type, refs)
  local tries = P .. 'tries:' .. agent_type
  local lines, changed = bulk_get(tries, refs), {}
  for i = 1, #refs do
    local attempts, first, deaths = read_tries(lines[i])
    changed[#changed + 1] = refs[i]
    -- guard: a death among others counts no attempt
    changed[#changed + 1] = tries_line(attempts, first, deaths + 1, reason_after(lines[i], AMONG_OTHERS))
  end
  bulk_set(tries, changed)
end
