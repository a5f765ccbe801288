-- What the marks of a commit ask for, one function for each. callboard/broker/redis/library.py names the marks (their letters are
-- put in), and says which arguments each brings; they stand in ARGV in the order of the marks.

local effects = {}

local function ref_of(turn, i) return turn.commits.group[i].suffix .. ' ' .. turn.commits.id[i] end

-- The agent goes back with this entry, and with others of it that go back in the same turn; where it `stays`, the entry is
-- parked behind it again, and the worker goes on with what it holds of the agent.
local function give_back(turn, i, delay, stays)
  local agent_type, key = turn.commits.group[i].type, turn.commits.key[i]
  local name = agent_type .. ' ' .. key
  if turn.returned == NONE then turn.returned, turn.returned_order = {}, {} end
  local back = turn.returned[name]
  if not back then
    back = { type = agent_type, key = key, refs = {}, delay = 0 }
    turn.returned[name] = back
    turn.returned_order[#turn.returned_order + 1] = back
  end
  back.refs[#back.refs + 1] = ref_of(turn, i)
  back.goes = back.goes or not stays
  if delay > back.delay then back.delay = delay end
  return back
end

-- The message is committed and never handled again: what it recorded and asked is not needed any more.
local function forget_once(record)
  for _, field in ipairs(call('HKEYS', record)) do
    local kind = string.sub(field, 1, 1)
    if kind == '>' then
      local id = string.sub(field, 2)
      call('DEL', P .. 'call:' .. id, P .. 'blob:' .. id .. ':reply')
    elseif kind == '?' then
      leave_question(string.sub(record, #P + 1), field)
    end
  end
  -- guard: what ctx.once recorded goes with its message
  call('DEL', record, P .. 'nested:' .. string.sub(record, #P + 6))
end

-- One message that leaves with the commit: eight values from this place on. Most leave now.
local function write_message(agent_type, at)
  local due = ARGV[at + OUTGOING_DUE]
  if due ~= '0' then return send_or_bury(agent_type, ARGV[at], tonumber(due), unpack(ARGV, at + OUTGOING_ID, at + OUTGOING_BODY)) end
  local wrong = try_send_now(ARGV[at], ARGV[at + OUTGOING_ID], ARGV[at + OUTGOING_TYPE], ARGV[at + OUTGOING_KEY],
    ARGV[at + OUTGOING_FROM], ARGV[at + OUTGOING_HEAD], ARGV[at + OUTGOING_BODY])
  if wrong then bury_message(wrong, agent_type, ARGV[at], unpack(ARGV, at + OUTGOING_ID, at + OUTGOING_BODY)) end
end

local WRITERS = {}

WRITERS[DEAD_LETTER] = function(turn, i)
  local letter = { reason = read(turn), error = read(turn), traceback = read(turn), attempts = read(turn), first = read(turn),
    worker = turn.worker, has_reply = turn.commits.mode[i].has_reply }
  local group, id = turn.commits.group[i], turn.commits.id[i]
  local values = values_or_blank(group.suffix, id)
  if values[TYPE] == '' then values[KEY] = turn.commits.key[i] end
  if letter.first == '' then letter.first = nil end
  -- guard: a dead letter is kept
  bury(group.type, group.suffix, id, values, letter)
end

-- The entry waits, and its agent with it, until a worker joins that knows the message in this version. It becomes a dead
-- letter when no process ever said that it knows the message in this version.
WRITERS[WAIT] = function(turn, i)
  local group, name, version = turn.commits.group[i], read(turn), read(turn)
  local newest = tonumber(call('HGET', P .. 'accepts', name) or 0) or 0
  if newest < tonumber(version) then
    redis.pcall('XACK', P .. group.suffix, group.type, turn.commits.id[i])
    return WRITERS[DEAD_LETTER](turn, i)
  end
  turn.at, turn.void = turn.at + BURIED_WIDTH, true
  give_back(turn, i, 0).newer = name .. ' ' .. version
end

WRITERS[RETRY] = function(turn, i)
  local delay, attempts, first, reason = tonumber(read(turn)), read(turn), read(turn), read(turn)
  local agent_type = turn.commits.group[i].type
  if first == '' then first = now_as_text() end
  -- It ran to its end in a living worker: deaths before are forgotten.
  -- guard: a retry counts its attempt
  must('HSET', P .. 'tries:' .. agent_type, ref_of(turn, i), tries_line(attempts, first, 0, reason))
  call('HINCRBY', P .. 'stats:' .. agent_type, 'retried', 1)
  give_back(turn, i, delay)
end

WRITERS[RELEASE] = function(turn, i)
  call('HINCRBY', P .. 'stats:' .. turn.commits.group[i].type, 'released', 1)
  -- guard: a release counts no attempt
  give_back(turn, i, 0, not turn.commits.mode[i].is_last)
end

-- The handler has asked something and ended: it runs again when an answer comes. Nothing of this attempt is written.
WRITERS[SUSPEND] = function(turn, i)
  local group, message, attempts, first = turn.commits.group[i], read(turn), read(turn), read(turn)
  if first == '' then first = now_as_text() end
  -- guard: a message that waited for an answer is not too late
  must('HSET', P .. 'tries:' .. group.type, ref_of(turn, i), tries_line(attempts, first, 0, 'waits for an answer'))
  keep_replies('once:' .. group.type .. ':' .. message)
  local back = give_back(turn, i, 0)
  back.message, back.wake, back.asked = message, read(turn), {}
  for n = 1, tonumber(read(turn)) do back.asked[n] = read(turn) end
end

-- A cancel that came while the handler ran: the requester was told that nothing happened.
WRITERS[UNLESS_CANCELLED] = function(turn)
  -- guard: a cancelled request commits nothing
  turn.void = call('ZSCORE', P .. 'cancelled', read(turn)) and true
end

WRITERS[FORGET] = function(turn, i) turn.once = P .. 'once:' .. turn.commits.group[i].type .. ':' .. read(turn) end

-- An agent's logs, and with them the version of its state: they are appended to what the worker has in memory, or not at all.
WRITERS[LOGS] = function(turn, i)
  local agent_type, key, version = turn.commits.group[i].type, turn.commits.key[i], read(turn)
  local changes
  changes, turn.at = read_logs(agent_type, key, turn.at)
  if turn.void then return end
  local state = P .. 'state:' .. agent_type .. ':' .. key
  local known = must('HMGET', state, 'v', 'l')
  -- guard: a log is appended to only by who has read it
  if tonumber(known[1] or 0) ~= tonumber(version) - 1 then
    error('state:' .. agent_type .. ':' .. key .. ': a commit before this one could not be written', 0)
  end
  local line = write_logs(changes, known[2])
  call('HSET', state, 'v', version, 'l', line, 'w', turn.worker)
end

WRITERS[STATE] = function(turn, i)
  local agent_type, key, version, data = turn.commits.group[i].type, turn.commits.key[i], read(turn), read(turn)
  if turn.void then return end
  -- guard: a commit writes the state
  must('HSET', P .. 'state:' .. agent_type .. ':' .. key, 'v', version, 'd', data, 'w', turn.worker)
  if data == '' then drop_logs(agent_type, key) end
end

WRITERS[CLAIMS] = function(turn)
  local count
  turn.own_claim, count = read(turn), tonumber(read(turn))
  this.claims = this.claims or {}
  for _ = 1, count do
    local name = read(turn)
    this.claims[name] = read(turn)
  end
end

WRITERS[REPLY] = function(turn)
  local at = turn.at
  turn.at = at + REPLIED_WIDTH
  if turn.void then return end
  -- guard: a commit sends its reply
  reply_to_call(ARGV[at], ARGV[at + REPLIED_CALL], ARGV[at + REPLIED_ID], ARGV[at + REPLIED_KIND], ARGV[at + REPLIED_FROM],
    ARGV[at + REPLIED_HEAD], ARGV[at + REPLIED_BODY])
end

WRITERS[OUTGOING] = function(turn, i)
  local at, agent_type = turn.at + 1, turn.commits.group[i].type
  local behind = at + OUTGOING_WIDTH * number_of(ARGV[at - 1])
  while at < behind do
    -- guard: a commit sends its messages
    if not turn.void then write_message(agent_type, at) end
    at = at + OUTGOING_WIDTH
  end
  turn.at = behind
end

-- The same for one that may have been sent before. Where that can't be known it is a dead letter.
local function write_identified(turn, agent_type, idem, window)
  local is_known, was_seen = true, false
  if idem ~= '' then is_known, was_seen = pcall(seen, idem, window) end
  if is_known and not was_seen then return write_message(agent_type, turn.at) end
  local at = turn.at
  if not is_known then bury_message(tostring(was_seen), agent_type, ARGV[at], unpack(ARGV, at + OUTGOING_ID, at + OUTGOING_BODY)) end
end

WRITERS[IDENTIFIED] = function(turn, i)
  local window = tonumber(read(turn))
  for _ = 1, tonumber(read(turn)) do
    local idem = read(turn)
    if not turn.void then write_identified(turn, turn.commits.group[i].type, idem, window) end
    turn.at = turn.at + OUTGOING_WIDTH
  end
end

-- What can't be written of a run is lost to those who read along, and only `events` tells: the commit itself goes on.
WRITERS[EVENTS] = function(turn)
  for _ = 1, tonumber(read(turn)) do
    -- guard: a commit writes to its runs
    if not turn.void then write_run(turn.at) end
    turn.at = behind_write(turn.at)
  end
end

-- How many arguments a mark brings that stand at the reading position: those of a commit that failed are passed over.
local WIDTH = { [DEAD_LETTER] = BURIED_WIDTH, [RETRY] = RETRIED_WIDTH, [WAIT] = WAITS_WIDTH + BURIED_WIDTH,
  [UNLESS_CANCELLED] = 1, [FORGET] = 1, [STATE] = 2, [REPLY] = REPLIED_WIDTH }

function effects.skip(turn, mark)
  local at, width = turn.at, WIDTH[mark] or 0
  if mark == LOGS then
    local _, after = read_logs('', '', at + 1)
    width = after - at
  end
  if mark == SUSPEND then width = SUSPENDED_WIDTH + tonumber(ARGV[at + SUSPENDED_COUNT]) end
  if mark == CLAIMS then width = CLAIMS_WIDTH + CLAIM_WIDTH * tonumber(ARGV[at + CLAIMS_COUNT]) end
  if mark == OUTGOING then width = 1 + OUTGOING_WIDTH * tonumber(ARGV[at]) end
  if mark == IDENTIFIED then width = ONCE_WIDTH + (OUTGOING_WIDTH + 1) * tonumber(ARGV[at + ONCE_COUNT]) end
  if mark == EVENTS then
    local behind = at + 1
    for _ = 1, tonumber(ARGV[at]) do behind = behind_write(behind) end
    width = behind - at
  end
  turn.at = at + width
end

-- Whether the states whose logs are appended to are those that the worker has in memory. Somebody may have replaced one
-- meanwhile (`load_state`): what it would append belongs to another one then.
function effects.fit(turn)
  local commits, first, versions = turn.commits, turn.at, {}
  for i = 1, commits.n do
    local name, marks = commits.group[i].type .. ':' .. commits.key[i], commits.mode[i].marks
    for j = 1, #marks do
      local mark = marks[j]
      if mark == LOGS then
        local version = tonumber(ARGV[turn.at])
        if (versions[name] or tonumber(call('HGET', P .. 'state:' .. name, 'v') or 0)) ~= version - 1 then return false end
        versions[name] = version
      end
      effects.skip(turn, mark)
    end
  end
  turn.at = first
  return true
end

-- The state is the first thing that is written: where it can't be, nothing of the commit is. After it nothing fails any more:
-- a message that can't leave is a letter of its own, and of a reply that can't only an event tells.
function effects.write(turn, i, mode)
  turn.void, turn.own_claim, turn.once = false, '', false
  local marks = mode.marks
  for j = 1, #marks do
    local write = WRITERS[marks[j]]
    if write then write(turn, i) end
  end
  if turn.once then forget_once(turn.once) end
  -- guard: attempts are forgotten with the commit
  if mode.is_tried then call('HDEL', P .. 'tries:' .. turn.commits.group[i].type, ref_of(turn, i)) end
  -- Last: what the commit sent may point to the same blob, which has to stay then.
  if turn.own_claim ~= '' then settle_claim(turn.own_claim) end
end
