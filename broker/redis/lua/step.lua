-- One turn of a worker: commits what it finished (all or nothing per message), fires what is due, takes new work.
--
-- worker:<worker>     hash    `call`: number of its last turn, so that a late copy of an older turn is refused; a worker
--                             without it was reaped and is fenced: nothing of its call is written
-- state:<type>:<key>  hash    v (version), d (data), w (worker that wrote it)
-- call:<id>           hash    see publish.lua
-- reply:<process>     stream  replies to one process
--
-- ARGV: worker, call number, max payload (bytes), max_unclaimed, entries held besides the commits below, scan ('1': look at
--   all streams, not only at those that are known to be fresh), accept ('1': hand over what is parked behind a finished key)
--   number of types, then for each: type, entries wanted, persistent ('1' or ''), most a second ('' for no limit)
--   number of groups, then for each: type, stream suffix
--   number of commits, then for each four values: group, entry id, agent key, mode
--   then, in the same order, what the letters of each mode ask for:
--     D  dead letter: reason, error, traceback, attempts, first (ms)
--     R  retry: due (ms from now), attempts so far, first (ms), reason
--     L  release: nothing
--     M  the worker holds more entries of this key: nothing
--     T  this entry was tried before: nothing
--     W  it waits for a worker that knows its message in this version: message, version, then as D, which it becomes
--        when no process ever said that it knows the message in this version
--     X  only unless the request was cancelled, else S, P, O and I of it are dropped: message id
--     K  what ctx.once recorded and what the handler sent at once is forgotten: message id
--     S  state: version, data
--     B  large bodies: blob that the message came with or '', count, then for each that leaves two values: blob, bytes
--     P  reply: process, call id or '', id, type, from, head, body
--     O  outgoing messages: count, then for each eight values: suffix, due, id, type, key, from, head, body
--     I  the same with idempotency ids: window (ms), count, then for each nine values: idempotency id or '', and those
-- Returns {'OK', server ms, next due ms or '', flags, deliveries, states} or {'FENCED'} or {'STALE'}.
--   flags: 'm' a stream holds more, 's' a suspect was given, or waits for a worker that holds nothing: take nothing else
--     until it is handled, 'f<topic>' nobody takes that topic
--   deliveries: eleven values each: type, suffix, entry id, tries or '', id, type, key, from, at, head, body; tries ends
--     with ' cancelled' when the request was cancelled
--   states: three values each: number of the delivery, version, data or nil when this worker was the last to write it

-- Of one call.
local worker, max_body, held, scan, accept
local at -- reading position in ARGV
local more, suspects_wait
local out, out_n, states
local wanted, persistent, rate, type_names
local paused, any_cancelled, any_newer, accepted -- what stands in the way; see exceptions()
local void -- of one commit: its request was cancelled
local next_token -- when a type's rate limit lets the next entry pass, ms
local own_new, own_n -- field, value, ... for own:<worker>
local groups, commit_group, commit_id, commit_key, commit_mode, commit_n
local returned, returned_order -- keys that go back: refs in order, and when they may be taken again

local function start()
  worker, max_body, held, scan, accept = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7] == '1'
  at, more, suspects_wait = 8, false, false
  out, out_n, states, own_new, own_n = {}, 0, {}, {}, 0
  wanted, persistent, rate, type_names = {}, {}, {}, {}
  paused, any_cancelled, any_newer, accepted, void, next_token = nil, false, false, nil, false, nil
  groups, commit_group, commit_id, commit_key, commit_mode, commit_n = {}, {}, {}, {}, {}, 0
  returned, returned_order = {}, {}
end

local function read()
  local value = ARGV[at]
  at = at + 1
  return value
end

-- What keeps entries from being handled as usual. There is mostly nothing of it: then this is one command in a turn.
local function exceptions()
  if call('EXISTS', P .. 'paused', P .. 'cancelled', P .. 'newer') == 0 then return end
  local fields = call('HGETALL', P .. 'paused')
  if #fields > 0 then paused = {} end
  for i = 1, #fields, 2 do
    -- `key counter/a` and `type counter` stay as they are, a topic by the suffix of its stream.
    local topic = string.match(fields[i], '^topic (.*)$')
    paused[topic and 'topic:' .. topic or fields[i]] = true
  end
  any_cancelled = call('EXISTS', P .. 'cancelled') == 1
  any_newer = call('EXISTS', P .. 'newer') == 1
end

local function is_paused(agent_type, key, suffix)
  return paused['type ' .. agent_type] or paused['key ' .. agent_type .. '/' .. key] or paused[suffix]
end

-- The key stays busy, for nobody, until something is resumed.
local function shelve(agent_type, key, queue)
  call('HSET', P .. 'busy:' .. agent_type, key, '')
  call('HSET', P .. 'shelved:' .. agent_type, key, queue)
end

-- Whether the worker knows the message that the first entry of the key waits for.
local function is_known(line)
  accepted = accepted or versions_of(call('HGET', P .. 'worker:' .. worker, 'accepts') or '')
  return knows(accepted, line)
end

local function add_state(agent_type, key)
  local state_key = P .. 'state:' .. agent_type .. ':' .. key
  local known = call('HMGET', state_key, 'v', 'w')
  local data = ''
  if known[1] then
    data = known[2] ~= worker and call('HGET', state_key, 'd') or false
  end
  local n = #states
  states[n + 1] = out_n / 11
  states[n + 2] = known[1] or '0'
  states[n + 3] = data
end

local function deliver(agent_type, suffix, id, tries, values)
  if persistent[agent_type] then add_state(agent_type, values[3]) end
  if any_cancelled and values[6] ~= '' and call('ZSCORE', P .. 'cancelled', values[1]) then
    tries = (tries == '' and '0 ' .. text(now()) or tries) .. ' cancelled'
  end
  local n = out_n
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = agent_type, suffix, id, tries
  out[n + 5], out[n + 6], out[n + 7], out[n + 8] = values[1], values[2], values[3], values[4]
  out[n + 9], out[n + 10], out[n + 11] = values[5], values[6], values[7]
  out_n = n + 11
  own_new[own_n + 1], own_new[own_n + 2] = agent_type .. ' ' .. suffix .. ' ' .. id, values[3]
  own_n = own_n + 2
end

-- Taking parked entries ------------------------------------------------------------------------------

local function take_one(agent_type, key, ref)
  local suffix, id = split_ref(ref)
  local entry = entry_of(suffix, id)
  if not entry then
    event('vanished', agent_type, ref)
    call('XACK', P .. suffix, agent_type, id)
    call('HDEL', P .. 'tries:' .. agent_type, ref)
    return 0
  end
  redis.pcall('XCLAIM', P .. suffix, agent_type, worker, 0, id, 'JUSTID')
  local values = entry_values(entry)
  values[3] = key
  deliver(agent_type, suffix, id, call('HGET', P .. 'tries:' .. agent_type, ref) or '', values)
  return 1
end

-- The first of the refs was looked at before.
local function up_to_pause(agent_type, key, refs)
  local list = { refs[1] }
  for i = 2, #refs do
    if is_paused(agent_type, key, (split_ref(refs[i]))) then break end
    list[i] = refs[i]
  end
  return list
end

local function take_parked(agent_type, key, most)
  local list = P .. 'wait:' .. agent_type .. ':' .. key
  local taken = 0
  while taken == 0 do
    local refs = call('LRANGE', list, 0, most - 1)
    if #refs == 0 then
      call('HDEL', P .. 'parked:' .. agent_type, key)
      return 0
    end
    if paused then refs = up_to_pause(agent_type, key, refs) end
    call('LTRIM', list, #refs, -1)
    if call('HINCRBY', P .. 'parked:' .. agent_type, key, -#refs) <= 0 then call('HDEL', P .. 'parked:' .. agent_type, key) end
    for i = 1, #refs do taken = taken + take_one(agent_type, key, refs[i]) end
  end
  return taken
end

local HANDED_OVER = 16 -- parked entries of one key that a worker gets at once

-- Puts a key aside whose first entry is paused.
local function is_put_aside(agent_type, key, queue)
  local first = call('LINDEX', P .. 'wait:' .. agent_type .. ':' .. key, 0)
  if not first or not is_paused(agent_type, key, (split_ref(first))) then return false end
  shelve(agent_type, key, queue)
  return true
end

-- A key whose first entry waits for a worker that knows its message goes back until such a worker takes it.
local function is_too_new(agent_type, key, queue)
  local name = agent_type .. ' ' .. key
  local line = call('HGET', P .. 'newer', name)
  if not line then return false end
  if is_known(line) then
    call('HDEL', P .. 'newer', name)
    return false
  end
  call('RPUSH', P .. queue .. agent_type, key)
  return true
end

local function take_key(agent_type, key, most, queue)
  local busy = P .. 'busy:' .. agent_type
  if call('HGET', busy, key) ~= '' then return 0 end
  if paused and is_put_aside(agent_type, key, queue) then return 0 end
  if any_newer and is_too_new(agent_type, key, queue) then return 0 end
  local taken = take_parked(agent_type, key, most)
  if taken > 0 then
    call('HSET', busy, key, worker)
  else
    call('HDEL', busy, key)
  end
  return taken
end

-- Commits --------------------------------------------------------------------------------------------

-- A commit is four values at the same place of four lists; most are plain ('C') and need nothing else.
local function read_commits()
  for g = 1, tonumber(read()) do groups[g] = { type = read(), suffix = read(), acked = {} } end
  commit_n = tonumber(read())
  for i = 1, commit_n do
    commit_group[i], commit_id[i], commit_key[i], commit_mode[i] =
      groups[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    at = at + 4
  end
end

local function is_plain(mode) return mode == 'C' or mode == 'CM' end

local function has(mode, letter) return string.find(mode, letter, 1, true) ~= nil end

local function ref_of(i) return commit_group[i].suffix .. ' ' .. commit_id[i] end

-- A reset is done; its stream has no group that would trim it.
local function end_urgent(group)
  for i = 1, commit_n do
    local name = group.type .. ' ' .. commit_key[i]
    if call('HGET', P .. 'urgent', name) == group.suffix .. ' ' .. commit_id[i] and contains(group.acked, commit_id[i]) then
      call('HDEL', P .. 'urgent', name)
    end
  end
  if #group.acked > 0 then call('XDEL', P .. group.suffix, unpack(group.acked)) end
  if call('XLEN', P .. group.suffix) == 0 then call('DEL', P .. group.suffix) end
end

-- Acks come first: they are allowed when memory is full, and they make room.
local function acknowledge()
  local fields = {}
  for i = 1, commit_n do
    local group, mode = commit_group[i], commit_mode[i]
    fields[i] = group.type .. ' ' .. group.suffix .. ' ' .. commit_id[i]
    if is_plain(mode) or not (has(mode, 'R') or has(mode, 'L') or has(mode, 'W')) then group.acked[#group.acked + 1] = commit_id[i] end
  end
  bulk('HDEL', P .. 'own:' .. worker, fields)
  for g = 1, #groups do
    local acked = groups[g].acked
    for i = 1, #acked, CHUNK do
      redis.pcall('XACK', P .. groups[g].suffix, groups[g].type, unpack(acked, i, math.min(i + CHUNK - 1, #acked)))
    end
    if string.sub(groups[g].suffix, 1, 7) == 'urgent:' then end_urgent(groups[g]) end
  end
end

local function read_claims()
  local own, count = read(), tonumber(read())
  claims = claims or {}
  for i = at, at + 2 * count - 2, 2 do claims[ARGV[i]] = ARGV[i + 1] end
  at = at + 2 * count
  return own
end

local function write_reply()
  local process, call_id, id, kind, from, head, body = read(), read(), read(), read(), read(), read(), read()
  if not void then reply_to_call(process, call_id, id, kind, from, head, body) end
end

local function write_outgoing(agent_type)
  for _ = 1, tonumber(read()) do
    if not void then
      send_or_bury(agent_type, ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5],
        ARGV[at + 6], ARGV[at + 7])
    end
    at = at + 8
  end
end

local function write_identified(agent_type)
  local window = tonumber(read())
  for _ = 1, tonumber(read()) do
    local idem = read()
    if not void and (idem == '' or not seen(idem, window)) then
      send_or_bury(agent_type, ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5],
        ARGV[at + 6], ARGV[at + 7])
    end
    at = at + 8
  end
end

-- The message is committed and never handled again: what it recorded and asked is not needed any more.
local function forget_once(record)
  for _, field in ipairs(call('HKEYS', record)) do
    if string.sub(field, 1, 1) == '>' then
      local id = string.sub(field, 2)
      call('DEL', P .. 'call:' .. id, P .. 'blob:' .. id .. ':reply')
    end
  end
  call('DEL', record, P .. 'nested:' .. string.sub(record, #P + 6))
end

local function write_dead(i)
  local letter = { reason = read(), error = read(), traceback = read(), attempts = read(), first = read(), worker = worker }
  local group = commit_group[i]
  local entry = entry_of(group.suffix, commit_id[i])
  local values = entry and entry_values(entry) or { '', '', commit_key[i], '', '', '', '' }
  if letter.first == '' then letter.first = nil end
  bury(group.type, group.suffix, commit_id[i], values, letter)
end

local function give_back(i, delay)
  local name = commit_group[i].type .. ' ' .. commit_key[i]
  local back = returned[name]
  if not back then
    back = { type = commit_group[i].type, key = commit_key[i], refs = {}, delay = 0 }
    returned[name] = back
    returned_order[#returned_order + 1] = back
  end
  back.refs[#back.refs + 1] = ref_of(i)
  if delay > back.delay then back.delay = delay end
  return back
end

-- The entry waits, and its key with it, until a worker joins that knows the message in this version.
local function write_wait(i)
  local group, name, version = commit_group[i], read(), read()
  local newest = tonumber(call('HGET', P .. 'accepts', name) or 0)
  if newest < tonumber(version) then
    redis.pcall('XACK', P .. group.suffix, group.type, commit_id[i])
    return write_dead(i)
  end
  at, void = at + 5, true
  give_back(i, 0).newer = name .. ' ' .. version
end

local function write_retry(i)
  local delay, attempts, first, reason = tonumber(read()), read(), read(), read()
  if first == '' then first = text(now()) end
  call('HSET', P .. 'tries:' .. commit_group[i].type, ref_of(i), attempts .. ' ' .. first .. ' ' .. reason)
  call('HINCRBY', P .. 'stats:' .. commit_group[i].type, 'retried', 1)
  give_back(i, delay)
end

local function write_state(i)
  local version, data = read(), read()
  if void then return end
  call('HSET', P .. 'state:' .. commit_group[i].type .. ':' .. commit_key[i], 'v', version, 'd', data, 'w', worker)
end

local function write_effects(i, mode)
  void = false
  if has(mode, 'D') then write_dead(i) end
  if has(mode, 'W') then write_wait(i) end
  if has(mode, 'R') then write_retry(i) end
  if has(mode, 'L') then
    call('HINCRBY', P .. 'stats:' .. commit_group[i].type, 'released', 1)
    give_back(i, 0)
  end
  if has(mode, 'T') then call('HDEL', P .. 'tries:' .. commit_group[i].type, ref_of(i)) end
  if has(mode, 'X') then void = call('ZSCORE', P .. 'cancelled', read()) and true end
  if has(mode, 'K') then forget_once(P .. 'once:' .. commit_group[i].type .. ':' .. read()) end
  if has(mode, 'S') then write_state(i) end
  local claim = has(mode, 'B') and read_claims() or ''
  if has(mode, 'P') then write_reply() end
  if has(mode, 'O') then write_outgoing(commit_group[i].type) end
  if has(mode, 'I') then write_identified(commit_group[i].type) end
  if claim ~= '' then settle_claim(claim) end
end

-- Whether a living worker of the type knows the message in this version.
local function somebody_knows(agent_type, line)
  for _, other in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    local known = call('HMGET', P .. 'worker:' .. other, 'types', 'accepts')
    if contains(words(known[1] or ''), agent_type) and knows(versions_of(known[2] or ''), line) then return true end
  end
  return false
end

local function wait_for_newer(agent_type, key, line)
  call('HSET', P .. 'newer', agent_type .. ' ' .. key, line)
  any_newer = true
  if somebody_knows(agent_type, line) then
    make_ready(agent_type, key)
  else
    call('HSET', P .. 'busy:' .. agent_type, key, '')
    event('waits for a newer worker', agent_type, key, line)
  end
end

local function return_keys()
  for i = 1, #returned_order do
    local back = returned_order[i]
    park_in_front(back.type, back.key, back.refs)
    if back.newer then
      wait_for_newer(back.type, back.key, back.newer)
    elseif back.delay > 0 then
      call('HSET', P .. 'busy:' .. back.type, back.key, '')
      call('ZADD', P .. 'timers', text(now() + back.delay), 'k|' .. back.type .. '|' .. back.key)
    else
      make_ready(back.type, back.key)
    end
  end
end

-- What waits behind a key that is free now goes to this worker in the same answer, or to whoever asks next. Returns
-- whether nothing waits.
local function hand_over(agent_type, key)
  if paused and is_put_aside(agent_type, key, 'ready:') then return false end
  if accept and not rate[agent_type] then return take_parked(agent_type, key, HANDED_OVER) == 0 end
  make_ready(agent_type, key)
  return false
end

local function release_keys(agent_type, keys)
  local parked = bulk_get(P .. 'parked:' .. agent_type, keys)
  local free = {}
  for i = 1, #keys do
    if not parked[i] or hand_over(agent_type, keys[i]) then free[#free + 1] = keys[i] end
  end
  bulk('HDEL', P .. 'busy:' .. agent_type, free)
end

local function finish_keys()
  local by_type, done = {}, {}
  local any_returned = #returned_order > 0
  for i = 1, commit_n do
    local agent_type, key, mode = commit_group[i].type, commit_key[i], commit_mode[i]
    local keys = by_type[agent_type]
    if not keys then
      keys = {}
      by_type[agent_type], done[agent_type] = keys, 0
    end
    local is_last = mode == 'C' or (mode ~= 'CM' and not has(mode, 'M'))
    if is_last and not (any_returned and returned[agent_type .. ' ' .. key]) then keys[#keys + 1] = key end
    if is_plain(mode) or string.sub(mode, 1, 1) == 'C' then done[agent_type] = done[agent_type] + 1 end
  end
  for agent_type, keys in pairs(by_type) do
    if #keys > 0 then release_keys(agent_type, keys) end
    if done[agent_type] > 0 then call('HINCRBY', P .. 'stats:' .. agent_type, 'done', done[agent_type]) end
  end
end

local function commit_all()
  read_commits()
  if commit_n == 0 then return end
  acknowledge()
  for i = 1, commit_n do
    if not is_plain(commit_mode[i]) then write_effects(i, commit_mode[i]) end
  end
  return_keys()
  finish_keys()
end

-- Reading new entries --------------------------------------------------------------------------------

local function read_group(agent_type, count, suffixes)
  local arguments = { 'GROUP', agent_type, worker, 'COUNT', count, 'STREAMS' }
  for i = 1, #suffixes do
    arguments[6 + i] = P .. suffixes[i]
    arguments[6 + #suffixes + i] = '>'
  end
  return redis.pcall('XREADGROUP', unpack(arguments))
end

local function group_is_gone(wrong)
  return wrong and (string.find(wrong, 'NOGROUP', 1, true) or string.find(wrong, 'requires the key to exist', 1, true))
end

local function read_one_by_one(agent_type, count, suffixes)
  local all = {}
  for i = 1, #suffixes do
    local got = read_group(agent_type, count, { suffixes[i] })
    if group_is_gone(failure(got)) then
      mend_group(agent_type, suffixes[i], own_new)
      got = read_group(agent_type, count, { suffixes[i] })
    end
    if failure(got) then
      event('unreadable', agent_type, suffixes[i], failure(got))
    elseif got then
      all[#all + 1] = got[1]
    end
  end
  return all
end

local function read_streams(agent_type, count, suffixes)
  local all = {}
  for i = 1, #suffixes, 1000 do
    local part = {}
    for j = i, math.min(i + 999, #suffixes) do part[#part + 1] = suffixes[j] end
    local got = read_group(agent_type, count, part)
    if failure(got) then got = read_one_by_one(agent_type, count, part) end
    for _, stream in ipairs(got or {}) do all[#all + 1] = stream end
  end
  return all
end

local function bury_junk(agent_type, suffix, id, entry, reason)
  local values = entry_values(entry) or { id, '', '', '', '', '', table.concat(entry, ' ', 1, math.min(#entry, 64)) }
  if values[1] == '' then values[1] = id end
  for i = 1, 7 do values[i] = string.sub(values[i], 1, i == 7 and DEAD_BODY or 1024) end
  call('XACK', P .. suffix, agent_type, id)
  bury(agent_type, suffix, id, values, { reason = reason, worker = worker })
end

local MAX_KEY, MAX_HEAD = 1024, 65536 -- bytes

local function check(entry)
  local values, wrong = entry_values(entry)
  if not values then return nil, wrong end
  if #values[7] > max_body then return nil, 'the payload has ' .. #values[7] .. ' bytes, the limit is ' .. max_body end
  if #values[3] > MAX_KEY or #values[2] + #values[1] + #values[4] + #values[5] > MAX_KEY then
    return nil, 'the entry has a key, id, type or sender longer than 1024 bytes'
  end
  if #values[6] > MAX_HEAD then return nil, 'the entry has a head longer than 65536 bytes' end
  return values
end

local function park(agent_type, key, ref)
  call('RPUSH', P .. 'wait:' .. agent_type .. ':' .. key, ref)
  call('HINCRBY', P .. 'parked:' .. agent_type, key, 1)
end

-- Admits entries in their order: an idle key is taken, a key of this worker gets one more, anything else is parked.
local function admit(agent_type, list)
  local keys = {}
  for i = 1, #list do keys[i] = list[i].values[3] end
  if #keys == 0 then return end
  local busy = bulk_get(P .. 'busy:' .. agent_type, keys)
  local mine, behind, taken = {}, {}, {}
  for i = 1, #list do
    local entry, key = list[i], keys[i]
    if paused and not behind[key] and is_paused(agent_type, key, entry.suffix) then
      behind[key] = true
      if not busy[i] and not mine[key] then shelve(agent_type, key, 'ready:') end
      mine[key] = nil
    elseif not mine[key] and not behind[key] then
      if not busy[i] then
        mine[key] = true
        taken[#taken + 1] = key
        taken[#taken + 1] = worker
      elseif busy[i] == worker and call('HEXISTS', P .. 'parked:' .. agent_type, key) == 0 then
        mine[key] = true
      else
        behind[key] = true
      end
    end
    if mine[key] then
      deliver(agent_type, entry.suffix, entry.id, '', entry.values)
    else
      park(agent_type, key, entry.suffix .. ' ' .. entry.id)
    end
  end
  bulk_set(P .. 'busy:' .. agent_type, taken)
end

-- Everything that was read, as {suffix, id, values}; junk is buried on the way. Also the lowest last id of the streams
-- that returned as much as was asked for: they may hold more, so what lies above it waits in `early`.
local function gather(agent_type, streams, count, suffixes)
  local list, cutoff, drained, cursor = {}, nil, {}, {}
  for i = 1, #suffixes do drained[P .. suffixes[i]] = suffixes[i] end
  for _, stream in ipairs(streams) do
    local suffix, entries = string.sub(stream[1], #P + 1), stream[2]
    local last = entries[#entries][1]
    cursor[#cursor + 1] = suffix
    cursor[#cursor + 1] = last
    if #entries >= count then
      drained[stream[1]] = nil
      more = true
      if not cutoff or sortable(last) < cutoff then cutoff = sortable(last) end
    end
    for i = 1, #entries do
      local values, wrong = check(entries[i][2])
      if values then
        list[#list + 1] = { suffix = suffix, id = entries[i][1], values = values }
      else
        bury_junk(agent_type, suffix, entries[i][1], entries[i][2], wrong)
      end
    end
  end
  local empty = {}
  for _, suffix in pairs(drained) do empty[#empty + 1] = suffix end
  bulk('SREM', P .. 'fresh:' .. agent_type, empty)
  bulk('HSET', P .. 'cursor:' .. agent_type, cursor)
  return list, cutoff
end

local function merge_early(agent_type, list, count)
  for i = 1, #list do list[i].sort = sortable(list[i].id) end
  for _, member in ipairs(call('ZRANGE', P .. 'early:' .. agent_type, 0, count - 1)) do
    local order, ref = string.match(member, '^([^|]*)|(.*)$')
    local suffix, id = split_ref(ref)
    list[#list + 1] = { suffix = suffix, id = id, sort = order, member = member }
  end
  table.sort(list, function(a, b) return a.sort < b.sort end)
end

local function admit_early(agent_type, item)
  call('ZREM', P .. 'early:' .. agent_type, item.member)
  local entry = entry_of(item.suffix, item.id)
  item.values = entry and entry_values(entry)
  if item.values then return true end
  call('XACK', P .. item.suffix, agent_type, item.id)
end

-- Several streams: in the order of publishing, up to the first gap and to the number wanted.
local function admit_merged(agent_type, list, cutoff, count)
  merge_early(agent_type, list, count)
  local chosen = {}
  for i = 1, #list do
    local item = list[i]
    if #chosen < count and (not cutoff or item.sort <= cutoff) then
      if not item.member or admit_early(agent_type, item) then chosen[#chosen + 1] = item end
    elseif not item.member then
      call('ZADD', P .. 'early:' .. agent_type, 0, item.sort .. '|' .. item.suffix .. ' ' .. item.id)
      more = true
    end
  end
  if #chosen == count then more = true end
  admit(agent_type, chosen)
end

-- Enough may have been read ahead already: then only streams that may hold something older are read, so that a backlog
-- in many streams is not read ahead as a whole. Also the order up to which entries are known to be complete then.
local function behind_early(agent_type, suffixes, count)
  local last = call('ZRANGE', P .. 'early:' .. agent_type, count - 1, count - 1)[1]
  if not last then return suffixes end
  local bound = string.match(last, '^[^|]*')
  local cursors, behind = bulk_get(P .. 'cursor:' .. agent_type, suffixes), {}
  for i = 1, #suffixes do
    if sortable(cursors[i] or '0-0') < bound then behind[#behind + 1] = suffixes[i] end
  end
  if #behind == #suffixes then return suffixes end
  more = true
  return behind, bound
end

local function not_paused(suffixes)
  local list = {}
  for i = 1, #suffixes do
    if not paused[suffixes[i]] then list[#list + 1] = suffixes[i] end
  end
  return list
end

local function pull_new(agent_type, count)
  if scan then call('SUNIONSTORE', P .. 'fresh:' .. agent_type, P .. 'fresh:' .. agent_type, P .. 'streams:' .. agent_type) end
  local suffixes = call('SMEMBERS', P .. 'fresh:' .. agent_type)
  if paused then suffixes = not_paused(suffixes) end
  local early = call('EXISTS', P .. 'early:' .. agent_type) == 1
  if #suffixes == 0 and not early then return end
  local bound = nil
  if early and #suffixes > 0 then suffixes, bound = behind_early(agent_type, suffixes, count) end
  local each = #suffixes > 1 and math.max(8, math.ceil(2 * count / #suffixes)) or count
  local streams = #suffixes > 0 and read_streams(agent_type, each, suffixes) or {}
  local list, cutoff = gather(agent_type, streams, each, suffixes)
  if bound and (not cutoff or bound < cutoff) then cutoff = bound end
  if #streams > 1 or early or #list > count then
    admit_merged(agent_type, list, cutoff, count)
  else
    admit(agent_type, list)
  end
end

-- Each key that is in the list now is looked at once: one that this worker can't take goes to the end.
local function pull_ready(agent_type, count)
  local taken = 0
  for _ = 1, call('LLEN', P .. 'ready:' .. agent_type) do
    if taken >= count then break end
    local key = call('LPOP', P .. 'ready:' .. agent_type)
    taken = taken + take_key(agent_type, key, math.min(HANDED_OVER, count - taken), 'ready:')
  end
  return taken
end

-- A message whose worker died often is tried alone, so that it takes nobody with it.
local function pull_suspect(agent_type)
  local queue = P .. 'suspects:' .. agent_type
  for _ = 1, call('LLEN', queue) do
    if held > 0 or out_n > 0 then
      suspects_wait = true
      return false
    end
    if take_key(agent_type, call('LPOP', queue), 1, 'suspects:') > 0 then
      suspects_wait = true
      return true
    end
  end
  return false
end

-- How much of a type may be taken by its rate limit: a bucket that fills by `rate` a second, up to one second's worth.
local function allowance(agent_type)
  local most = math.max(1, rate[agent_type])
  local tokens, since = string.match(call('GET', P .. 'rate:' .. agent_type) or '', '^(%S+) (%d+)$')
  if not tokens then return most end
  return math.min(most, tonumber(tokens) + (now() - tonumber(since)) / 1000 * rate[agent_type])
end

local function spend(agent_type, tokens, taken)
  local left, per_second = tokens - taken, rate[agent_type]
  local full = math.ceil((math.max(1, per_second) - left) / per_second * 1000)
  if full > 0 then call('SET', P .. 'rate:' .. agent_type, string.format('%.3f ', left) .. text(now()), 'PX', text(full)) end
  if left < 1 then
    local due = now() + math.ceil((1 - left) / per_second * 1000)
    if not next_token or due < next_token then next_token = due end
  end
end

local function pull_type(agent_type, count)
  count = count - pull_ready(agent_type, count)
  if count > 0 then pull_new(agent_type, count) end
end

local function pull_limited(agent_type, count)
  local tokens, before = allowance(agent_type), out_n
  count = math.min(count, math.floor(tokens))
  if count > 0 then pull_type(agent_type, count) end
  spend(agent_type, tokens, (out_n - before) / 11)
end

local function is_wanted(agent_type)
  return wanted[agent_type] > 0 and not (paused and paused['type ' .. agent_type])
end

local function pull_all()
  for i = 1, #type_names do
    if is_wanted(type_names[i]) and pull_suspect(type_names[i]) then return end
  end
  for i = 1, #type_names do
    local agent_type = type_names[i]
    if is_wanted(agent_type) then
      if rate[agent_type] then
        pull_limited(agent_type, wanted[agent_type])
      else
        pull_type(agent_type, wanted[agent_type])
      end
    end
  end
end

-- The turn -------------------------------------------------------------------------------------------

local function read_types()
  for _ = 1, tonumber(read()) do
    local agent_type = read()
    type_names[#type_names + 1] = agent_type
    wanted[agent_type] = tonumber(read())
    persistent[agent_type] = read() == '1'
    rate[agent_type] = tonumber(read())
  end
end

local function step()
  local call_number, max_unclaimed = tonumber(ARGV[2]), tonumber(ARGV[4])
  local last_call = call('HGET', P .. 'worker:' .. ARGV[1], 'call')
  if not last_call then return { 'FENCED' } end
  if tonumber(last_call) >= call_number then return { 'STALE' } end
  start()
  call('HSET', P .. 'worker:' .. worker, 'call', call_number)
  read_types()
  exceptions()
  commit_all()
  local due = fire_due()
  local full = announce(max_unclaimed)
  pull_all()
  bulk_set(P .. 'own:' .. worker, own_new)
  save_clock()
  if next_token and (due == '' or next_token < tonumber(due)) then due = text(next_token) end
  local flags = (more and 'm' or '') .. (suspects_wait and 's' or '') .. (full and 'f' .. full or '')
  return { 'OK', text(now()), due, flags, out, states }
end

register('step', step)
