-- Commits: each writes all of what it says or, because the turn was refused before or one of its keys is of the wrong type,
-- nothing; then its message is a dead letter.
--
-- A commit is four values at the same place of four lists: `group` (a table: agent type, stream suffix, and as a list the ids that
-- are acknowledged), `id`, `key` and `mode`, what the marks say (modes.lua); `n` is how many there are. Most are plain and need nothing else.
-- `own`: their fields of own:<worker>. `mode_of_all`: where all are of one type, and have one mode, as mostly; then nobody
-- looks at them one by one, where nothing is to be written of them.

local NO_COMMITS = { n = 0, groups = NONE, group = NONE, id = NONE, key = NONE, mode = NONE, own = NONE }

-- Of the stream and the type; one that came before is found again. `known`: by type, groups by suffix.
local function group_at(groups, known, agent_type, suffix)
  local of_type = known[agent_type]
  if not of_type then
    of_type = {}
    known[agent_type] = of_type
  end
  local group = of_type[suffix]
  if not group then
    group = { nil, type = agent_type, suffix = suffix } -- with room for an id: mostly there is one
    of_type[suffix], groups[#groups + 1] = group, group
  end
  return group
end

local function read_commits(turn)
  local n, at, i = number_of(read(turn)), turn.at, 0
  if n == 0 then
    turn.commits = NO_COMMITS
    return
  end
  local groups, known, group, id, key, mode, own = {}, {}, {}, {}, {}, {}, {}
  local first_type, first_mode = ARGV[at], ARGV[at + COMMITS_MODE]
  local mode_of_all = first_mode ~= '' and mode_of(first_mode)
  while i < n do
    local agent_type, suffix = ARGV[at], ARGV[at + COMMITS_STREAM]
    local count, common = number_of(ARGV[at + COMMITS_COUNT]), ARGV[at + COMMITS_MODE]
    local its_mode, is_apart, head = common ~= '' and mode_of(common), suffix == '', agent_type .. ' ' .. suffix .. ' '
    local one = not is_apart and group_at(groups, known, agent_type, suffix)
    -- guard: commits of several modes are looked at one by one
    if its_mode ~= mode_of_all or agent_type ~= first_type then mode_of_all = false end
    at = at + (is_apart and COMMITS_WIDTH + count or COMMITS_WIDTH)
    for here = at, at + count - 1 do
      local its, entry = its_mode or mode_of(ARGV[here + 2 * count]), ARGV[here]
      i = i + 1
      if is_apart then
        one = group_at(groups, known, agent_type, ARGV[here - count])
        own[i] = agent_type .. ' ' .. one.suffix .. ' ' .. entry
      else
        own[i] = head .. entry
      end
      group[i], id[i], key[i], mode[i] = one, entry, ARGV[here + count], its
      -- guard: what comes back is not acknowledged
      if not its.comes_back then one[#one + 1] = entry end
      if its.has_logs then turn.has_logs = true end
    end
    at = at + (its_mode and 2 or 3) * count
  end
  turn.at = at
  turn.commits = { n = n, groups = groups, group = group, id = id, key = key, mode = mode, own = own, mode_of_all = mode_of_all }
end

-- Whether the server knows of each entry that this worker holds it. A commit of another one would come on top of the
-- commit of whoever holds it now.
local function holds_all(turn)
  local commits = turn.commits
  if commits.n == 0 then return true end
  local keys = commits.key
  if commits.n == 1 then return call('HGET', turn.own, commits.own[1]) == keys[1] end
  local held = bulk_get(turn.own, commits.own)
  for i = 1, commits.n do
    if held[i] ~= keys[i] then return false end
  end
  return true
end

-- A reset is done; its stream has no group that would trim it.
local function end_urgent(commits, group)
  for i = 1, commits.n do
    local name = group.type .. ' ' .. commits.key[i]
    if call('HGET', P .. 'urgent', name) == group.suffix .. ' ' .. commits.id[i] and contains(group, commits.id[i]) then
      call('HDEL', P .. 'urgent', name)
    end
  end
  if #group > 0 then call('XDEL', P .. group.suffix, unpack(group)) end
  if call('XLEN', P .. group.suffix) == 0 then call('DEL', P .. group.suffix) end
end

-- Acknowledging comes first: it is allowed when memory is full, and it makes room.
local function acknowledge(turn, commits)
  local groups, run = commits.groups, redis.pcall
  -- guard: what is committed is held no more
  bulk('HDEL', turn.own, commits.own)
  for i = 1, #groups do
    local group = groups[i]
    local suffix, agent_type = group.suffix, group.type
    for j = 1, #group, CHUNK do
      -- guard: a commit acknowledges
      run('XACK', P .. suffix, agent_type, unpack(group, j, math.min(j + CHUNK - 1, #group)))
    end
    if string.sub(suffix, 1, 7) == 'urgent:' then end_urgent(commits, group) end
  end
end

-- Whether a handler that asked these questions has nothing to do but to wait.
local function has_to_wait(back)
  -- guard: a reset does not wait for an answer
  if call('HEXISTS', P .. 'urgent', back.type .. ' ' .. back.key) == 1 then return false end
  -- The order may have come when the handler had ended already.
  -- guard: a message that was cancelled does not wait for an answer
  if call('ZSCORE', P .. 'cancelled', back.message) then return false end
  for _, id in ipairs(back.asked) do
    -- guard: an answer that came before its handler waited is not lost
    if status_of(id) ~= 'open' then return false end
  end
  return true
end

-- The agent waits for an answer, with no worker and in no list.
local function suspend(back)
  if not has_to_wait(back) then return make_ready(back.type, back.key) end
  call('HSET', P .. 'busy:' .. back.type, back.key, '')
  call('HSET', P .. 'suspended:' .. back.type, back.key, back.message)
  -- guard: a wait ends when its question expires
  if back.wake ~= '' then call('ZADD', P .. 'timers', back.wake, 'k|' .. back.type .. '|' .. back.key) end
  -- Without these nobody would find it again.
  if is_unusable('suspended:' .. back.type) or is_unusable('timers') then make_ready(back.type, back.key) end
end

-- Others may have the agent, now or when its time has come.
local function let_go(turn, back)
  if back.newer then
    wait_for_newer(turn, back.type, back.key, back.newer)
  elseif back.asked then
    suspend(back)
  -- guard: a retry waits
  elseif back.delay > 0 then
    call('HSET', P .. 'busy:' .. back.type, back.key, '')
    call('ZADD', P .. 'timers', text(now() + back.delay), 'k|' .. back.type .. '|' .. back.key)
    if is_unusable('timers') then make_ready(back.type, back.key) end
  else
    make_ready(back.type, back.key)
  end
end

local function return_keys(turn)
  for _, back in ipairs(turn.returned_order) do
    park_or_bury(back.type, back.key, back.refs)
    -- guard: an agent of which entries are parked again stays with its worker
    if back.goes then let_go(turn, back) end
  end
  -- guard: what commits leave behind is looked at
  if this.has_timers or #turn.returned_order > 0 then turn.is_calm, turn.next_due = false, next_due() end
end

-- What waits behind an agent that is free now goes to this worker in the same answer, as far as it has room, or to the worker
-- that asks next. What a rate limit is for goes through its bucket, see pull.lua. Returns whether nothing waits.
local function hand_over(turn, agent_type, key)
  if turn.paused and is_put_aside(turn, agent_type, key, 'ready:') then return false end
  -- guard: a worker that takes nothing more is handed nothing
  if turn.accept > 0 and turn.handed < MOST_PARKED and turn.bytes < MOST_BYTES and not turn.terms.rate[agent_type] then
    local taken, why = take_parked(turn, agent_type, key, math.min(HANDED_OVER, turn.accept))
    turn.accept, turn.handed = turn.accept - taken, turn.handed + taken
    if why == 'paused' or why == 'suspect' then return false end
    if why ~= 'more' then return taken == 0 end
  end
  make_ready(agent_type, key)
  return false
end

-- How many entries are parked behind each key; where the counts can't be read, the lists themselves are asked.
local function parked_behind(agent_type, keys)
  local parked = bulk_get(P .. 'parked:' .. agent_type, keys)
  if is_unusable('parked:' .. agent_type) then
    for i = 1, #keys do parked[i] = call('LLEN', P .. 'wait:' .. agent_type .. ':' .. keys[i]) > 0 end
  end
  return parked
end

local function release_keys(turn, agent_type, keys)
  local free = keys
  if not turn.is_calm then
    local parked = parked_behind(agent_type, keys)
    free = {}
    for i = 1, #keys do
      if not parked[i] or hand_over(turn, agent_type, keys[i]) then free[#free + 1] = keys[i] end
    end
  end
  -- guard: an agent is free after its last commit
  bulk('HDEL', keys_for(turn, agent_type).busy, free)
end

-- The same for commits that have one mode as below for any.
local function finish_alike(turn, agent_type, commits, mode)
  if mode.is_last then release_keys(turn, agent_type, commits.key) end
  if mode.is_commit then call('HINCRBY', keys_for(turn, agent_type).stats, 'done', digits(commits.n)) end
end

local function finish_keys(turn, commits)
  -- guard: an agent that goes back is not free
  if commits.mode_of_all and turn.returned == NONE then return finish_alike(turn, commits.group[1].type, commits, commits.mode_of_all) end
  local ending, done = {}, {}
  local any_returned = #turn.returned_order > 0
  local groups, commit_keys, modes = commits.group, commits.key, commits.mode
  for i = 1, commits.n do
    local agent_type, key, mode = groups[i].type, commit_keys[i], modes[i]
    local keys = ending[agent_type]
    if not keys then
      keys = {}
      ending[agent_type], done[agent_type] = keys, 0
    end
    if mode.is_last and not (any_returned and turn.returned[agent_type .. ' ' .. key]) then keys[#keys + 1] = key end
    if mode.is_commit then done[agent_type] = done[agent_type] + 1 end
  end
  for agent_type, keys in pairs(ending) do
    if #keys > 0 then release_keys(turn, agent_type, keys) end
    if done[agent_type] > 0 then call('HINCRBY', keys_for(turn, agent_type).stats, 'done', digits(done[agent_type])) end
  end
end

-- What can't be written becomes a dead letter; what can't be that either comes back later. The other commits of the turn go on.
local function write_or_bury(turn, i, mode)
  local first = turn.at
  -- guard: a commit that can't be written takes no other with it
  local is_written, wrong = pcall(effects.write, turn, i, mode)
  if is_written then return end
  turn.at = first
  for j = 1, #mode.marks do effects.skip(turn, mode.marks[j]) end
  local group, id = turn.commits.group[i], turn.commits.id[i]
  local tries = call('HGET', P .. 'tries:' .. group.type, group.suffix .. ' ' .. id) or ''
  local values = values_or_blank(group.suffix, id)
  if values[TYPE] == '' then values[KEY] = turn.commits.key[i] end
  local letter = { reason = UNWRITABLE, error = failure(wrong) or tostring(wrong), worker = turn.worker,
    attempts = tonumber(string.match(tries, '^%d+') or 0) + 1, first = string.match(tries, '^%d+ (%d+)') }
  -- guard: what can't be buried comes back
  if not bury_entry(group.type, group.suffix, id, values, letter) then give_back(turn, i, SEND_AGAIN) end
end

local function commit_all(turn)
  local commits = turn.commits
  if commits.n == 0 then return end
  acknowledge(turn, commits)
  local modes, mode_of_all = commits.mode, commits.mode_of_all
  for i = 1, mode_of_all and mode_of_all.is_plain and 0 or commits.n do
    if not modes[i].is_plain then write_or_bury(turn, i, modes[i]) end
  end
  return_keys(turn)
  finish_keys(turn, commits)
end
