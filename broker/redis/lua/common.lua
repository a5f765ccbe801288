-- What every function shares: ids, topics, bells, parked entries. scripts.py makes one library of this file and the
-- others, each in a block of its own. A library is loaded once, so nothing is defined anew in a call; what belongs to
-- one call is set in begin().
--
-- KEYS[1]  prefix `callboard:{<namespace>}:`; every key below starts with it, so all live in one hash slot
--
-- clock                 string  last stream id given, `<ms>-<n>`: ids compare across the streams of a namespace
-- topics                hash    topic type -> agent types that subscribe, space separated
-- prefixes              hash    topic type prefix -> agent types, space separated
-- types                 hash    agent type -> JSON of its settings
-- streams:<type>        set     streams the type reads, as suffixes (`topic:visits`, `inbox:counter`)
-- fresh:<type>          set     suffixes that may hold unread entries
-- bell:<type>           list    tokens; one wakes one idle worker
-- busy:<type>           hash    agent key -> worker that runs it, or '' while parked entries wait for a worker
-- parked:<type>         hash    agent key -> number of entries in its wait list
-- wait:<type>:<key>     list    refs `<suffix> <entry id>` parked behind the key, in order
-- ready:<type>          list    keys whose parked entries may be taken
-- suspects:<type>       list    keys whose first entry has crashed workers: tried alone
-- early:<type>          zset    refs read ahead of another stream, score 0, member `<sortable id>|<ref>`
-- tries:<type>          hash    ref -> `<attempts> <first ms> <reason>`
-- cursor:<type>         hash    suffix -> last id that the group was given
-- own:<worker>          hash    `<type> <ref>` -> agent key
-- stats:<type>          hash    counters: done, retried, dead, released, reaped
-- dead:<type>           stream  dead letters
-- dedupe:<bucket>       set     idempotency ids, two rotating buckets
-- once:<type>:<message> hash    `.<name>`: what ctx.once recorded; `><id>`: what the handler sent at once, before its commit;
--                               `!<entry>`: how a nested request ended
-- nested:<type>:<message> stream requests that came to a handler while it waited, see nest.lua
-- store:<name>          string or hash  what an application keeps for a while, see store.py; no script touches it
-- timers, timer:<id>    zset and hashes: what is due later
-- blob:<name>           hash    `body`: bytes that an entry points to instead of holding them; every other field is a place
--                               that points to them: `topic:visits <id>`, `dead:counter <id>`, `timer:<id>`. A reply's
--                               has no places: it expires
-- blobs                 zset    blob -> when to look whether a place still needs it, server ms
-- events                stream, capped: what the runtime did
-- control               stream, capped: what workers are told at once: cancel, pause, make way
-- paused                hash    `type <type>`, `key <type>/<key>` or `topic <topic>` -> when (ms) and by whom
-- shelved:<type>        hash    agent key -> queue that it belongs in, while something of it is paused
-- cancelled             zset    id of a cancelled request -> until when it matters (ms)
-- urgent                hash    `<type> <key>` -> ref of the reset that goes before everything else of that agent
-- newer                 hash    `<type> <key>` -> `<message> <version>` that its first entry waits for a worker to know
-- accepts               hash    message -> highest version that some process ever said it knows
-- rate:<type>           string  `<tokens> <ms>`: what is left of a type's rate limit

local call -- redis.call, which does not exist while a library is loaded
local CHUNK = 500 -- unpack() takes about 8,000 values; stay far below

-- Of one call: the prefix, the arguments, the server's time, the clock of ids, topics looked up, streams added to.
local P, ARGV
local now_value, now_text
local clock_ms, clock_n, clock_text
local subscribers_of, touched
local claims -- blob -> bytes that came with this call; {} where a body may point to bytes that are there; else nil

local function begin(keys, arguments)
  call, P, ARGV = redis.call, keys[1], arguments
  now_value, now_text, clock_ms, clock_n, clock_text, claims = nil, nil, nil, nil, nil, nil
  subscribers_of, touched = {}, {} -- touched: suffix -> number of entries that this call added
end

-- Registers one function of the library. Only publishing is refused when the server's memory is full: whatever ends
-- work has to go on, so that room is made.
local function register(name, body, refused_when_full)
  redis.register_function({
    function_name = LIBRARY .. '_' .. name,
    callback = function(keys, arguments)
      begin(keys, arguments)
      return body()
    end,
    flags = refused_when_full and {} or { 'allow-oom' },
  })
end

-- The text of the error that pcall() returned, or nil. (fakeredis gives an object where servers give a string.)
local function failure(result) return type(result) == 'table' and result.err and tostring(result.err) or nil end

local function text(number) return string.format('%.0f', number) end

local function now()
  if not now_value then
    local t = call('TIME')
    now_value = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
    now_text = text(now_value)
  end
  return now_value
end

local function bulk(command, key, list)
  for i = 1, #list, CHUNK do call(command, key, unpack(list, i, math.min(i + CHUNK - 1, #list))) end
end

-- A small hash is a list that is searched from its start; one long value makes it a table before many fields follow.
local LONG = '-----------------------------------------------------------------'
local function bulk_set(key, pairs_)
  if #pairs_ > 64 then call('HSET', key, pairs_[1], LONG) end
  bulk('HSET', key, pairs_)
end

local function bulk_get(key, fields)
  if #fields <= CHUNK then return call('HMGET', key, unpack(fields)) end
  local values = {}
  for i = 1, #fields, CHUNK do
    local part = call('HMGET', key, unpack(fields, i, math.min(i + CHUNK - 1, #fields)))
    for j = 1, #part do values[i + j - 1] = part[j] end
  end
  return values
end

local function words(line)
  local list = {}
  for word in string.gmatch(line, '%S+') do list[#list + 1] = word end
  return list
end

local function event(name, a, b, c)
  call('XADD', P .. 'events', 'MAXLEN', '~', 10000, '*', 'event', name, 'of', a or '', 'what', b or '', 'more', c or '')
end

-- Ids ----------------------------------------------------------------------------------------------

local function read_clock()
  local last = call('GET', P .. 'clock')
  local ms, n = string.match(last or '', '^(%d+)%-(%d+)$')
  clock_ms, clock_n = tonumber(ms or 0), tonumber(n or 0)
end

local function next_id()
  if not clock_ms then read_clock() end
  if now() > clock_ms then
    clock_ms, clock_n, clock_text = now_value, 0, nil
  else
    clock_n = clock_n + 1
  end
  clock_text = clock_text or text(clock_ms) .. '-'
  return clock_text .. clock_n
end

local function save_clock()
  if clock_ms then call('SET', P .. 'clock', text(clock_ms) .. '-' .. text(clock_n)) end
end

-- An entry that a person added by hand may have an id above our clock: step over it once and go on.
local function append(suffix, ...)
  local id = next_id()
  local added = redis.pcall('XADD', P .. suffix, id, ...)
  local wrong = failure(added)
  if not wrong then return id end
  if not string.find(wrong, 'equal or smaller', 1, true) then return error(wrong) end
  local info = call('XINFO', 'STREAM', P .. suffix)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local ms, n = string.match(info[i + 1], '^(%d+)%-(%d+)$')
      clock_ms, clock_n, clock_text = tonumber(ms), tonumber(n), nil
    end
  end
  id = next_id()
  call('XADD', P .. suffix, id, ...)
  return id
end

local function sortable(id)
  local ms, n = string.match(id, '^(%d+)%-(%d+)$')
  return string.rep('0', 16 - #ms) .. ms .. '-' .. string.rep('0', 20 - #n) .. n
end

local function split_ref(ref) return string.match(ref, '^(%S+) (%S+)$') end

-- Topics and bells -----------------------------------------------------------------------------------

local function contains(list, value)
  for i = 1, #list do
    if list[i] == value then return true end
  end
  return false
end

local function create_group(suffix, agent_type, start)
  local made = redis.pcall('XGROUP', 'CREATE', P .. suffix, agent_type, start, 'MKSTREAM')
  local wrong = failure(made)
  if wrong and not string.find(wrong, 'BUSYGROUP', 1, true) then error(wrong) end
  call('SADD', P .. 'streams:' .. agent_type, suffix)
end

-- A topic that is seen for the first time gets the agent types whose prefix subscription fits: one lookup per
-- prefix length, however many subscriptions there are.
local function admit_topic(topic)
  local candidates = {}
  for length = 0, math.min(#topic, 200) do candidates[length + 1] = string.sub(topic, 1, length) end
  local found = call('HMGET', P .. 'prefixes', unpack(candidates))
  local types = {}
  for i = 1, #candidates do
    for _, agent_type in ipairs(words(found[i] or '')) do
      if not contains(types, agent_type) then types[#types + 1] = agent_type end
    end
  end
  call('HSET', P .. 'topics', topic, table.concat(types, ' '))
  for i = 1, #types do create_group('topic:' .. topic, types[i], '0') end
  return types
end

local function subscribers(topic)
  local types = subscribers_of[topic]
  if not types then
    local line = call('HGET', P .. 'topics', topic)
    types = line and words(line) or admit_topic(topic)
    subscribers_of[topic] = types
  end
  return types
end

local function ring(agent_type, times)
  local bell = P .. 'bell:' .. agent_type
  local missing = math.min(times, 4) - call('LLEN', bell)
  for _ = 1, missing do call('LPUSH', bell, '1') end
end

local function touch(suffix)
  local count = touched[suffix]
  if not count and string.sub(suffix, 1, 6) == 'topic:' then subscribers(string.sub(suffix, 7)) end
  touched[suffix] = (count or 0) + 1
end

local function receivers(suffix)
  local topic = string.match(suffix, '^topic:(.*)$')
  if topic then return subscribers(topic), topic end
  return { string.match(suffix, '^inbox:(.*)$') }, nil
end

-- Tells the readers of every stream that was added to; a topic without readers is kept within `max_unclaimed`.
-- One command for all streams of a type: a batch may touch a thousand topics.
local function announce(max_unclaimed)
  local full, fresh, added = nil, {}, {}
  for suffix, count in pairs(touched) do
    local types, topic = receivers(suffix)
    for i = 1, #types do
      local agent_type = types[i]
      if not fresh[agent_type] then fresh[agent_type], added[agent_type] = {}, 0 end
      table.insert(fresh[agent_type], suffix)
      added[agent_type] = added[agent_type] + count
    end
    if topic and #types == 0 and call('XLEN', P .. suffix) > max_unclaimed then
      call('XTRIM', P .. suffix, 'MAXLEN', '~', max_unclaimed)
      full = topic
    end
  end
  for agent_type, suffixes in pairs(fresh) do
    bulk('SADD', P .. 'fresh:' .. agent_type, suffixes)
    ring(agent_type, added[agent_type])
  end
  touched = {}
  return full
end

local function remember_timer(id, due, suffix, ...)
  call('HSET', P .. 'timer:' .. id, 'stream', suffix, ...)
  local head = call('ZRANGE', P .. 'timers', 0, 0, 'WITHSCORES')
  call('ZADD', P .. 'timers', text(due), 'm|' .. id)
  if not head[2] or due < tonumber(head[2]) then
    local types = receivers(suffix)
    for i = 1, #types do ring(types[i], 1) end
  end
end

-- Large bodies ------------------------------------------------------------------------------------------

local LOOK_AGAIN = 600000 -- ms between two looks at whether a blob is still needed

local function claim_of(body) return string.match(body, '^{"claim":"(blob:[^"]+)","bytes":%d+}$') end

-- If a body points to a blob, the blob stays as long as that place needs it; its bytes may have come with this call.
local function keep_claim(body, place)
  local name = claim_of(body)
  if not name then return end
  if claims and claims[name] then
    call('HSET', P .. name, 'body', claims[name], place, '')
    call('ZADD', P .. 'blobs', text(now() + LOOK_AGAIN), name)
  elseif call('EXISTS', P .. name) == 1 then
    call('HSET', P .. name, place, '')
  end
end

-- Whether some group of the stream has still to handle the entry; one that vanished is made again where it was.
local function is_unhandled(suffix, id)
  local types = receivers(suffix)
  local found, last_of = redis.pcall('XINFO', 'GROUPS', P .. suffix), {}
  if failure(found) then return true end
  for i = 1, #found do
    local group = {}
    for j = 1, #found[i], 2 do group[found[i][j]] = found[i][j + 1] end
    last_of[group.name] = group['last-delivered-id']
  end
  for i = 1, #types do
    local last = last_of[types[i]]
    if not last or sortable(id) > sortable(last) then return true end
    if #call('XPENDING', P .. suffix, types[i], id, id, 1) > 0 then return true end
  end
  return #types == 0
end

local function needs_claim(place)
  if string.sub(place, 1, 6) == 'timer:' then return call('EXISTS', P .. place) == 1 end
  local suffix, id = string.match(place, '^(.*) (%S+)$')
  if not suffix or #call('XRANGE', P .. suffix, id, id) == 0 then return false end
  return string.sub(suffix, 1, 5) == 'dead:' or is_unhandled(suffix, id)
end

-- Takes the blob away unless some place still needs it.
local function settle_claim(name)
  local left = 0
  for _, place in ipairs(call('HKEYS', P .. name)) do
    if place ~= 'body' then
      if needs_claim(place) then left = left + 1 else call('HDEL', P .. name, place) end
    end
  end
  if left > 0 then return call('ZADD', P .. 'blobs', text(now() + LOOK_AGAIN), name) end
  call('UNLINK', P .. name)
  call('ZREM', P .. 'blobs', name)
end

-- A time to come: 0 is now, below ABSOLUTE it counts ms from now, above it is a time of the server's clock.
local ABSOLUTE = 100000000000

-- One message to a stream, now or later.
local function send(suffix, due, id, kind, key, from, head, body)
  if due > 0 and due < ABSOLUTE then due = now() + due end
  if due > now() then
    remember_timer(id, due, suffix, 'id', id, 'type', kind, 'key', key, 'from', from, 'at', text(now()), 'head', head,
      'body', body)
    if claims then keep_claim(body, 'timer:' .. id) end
    return
  end
  touch(suffix)
  local entry = append(suffix, 'id', id, 'type', kind, 'key', key, 'from', from, 'at', now_text, 'head', head, 'body', body)
  if claims then keep_claim(body, suffix .. ' ' .. entry) end
end

-- Whether something with this idempotency id was sent before. The id of a person or program counts in the whole
-- namespace, for the window (ms). `><type>:<message>|<id>` counts among what one handler sends at once, until the
-- message it handles is committed.
local function seen(idem, window)
  local scope, id = string.match(idem, '^>(.*)|([^|]*)$')
  if scope then
    if call('HSETNX', P .. 'once:' .. scope, '>' .. id, '1') == 0 then return true end
    call('PEXPIRE', P .. 'once:' .. scope, text(window))
    return false
  end
  local bucket = math.floor(now() / window)
  local current, last = P .. 'dedupe:' .. text(bucket), P .. 'dedupe:' .. text(bucket - 1)
  if call('SISMEMBER', last, idem) == 1 or call('SADD', current, idem) == 0 then return true end
  call('PEXPIRE', current, text(window * 2))
  return false
end

-- What was seen could not be sent: it may come again.
local function unsee(idem, window)
  local scope, id = string.match(idem, '^>(.*)|([^|]*)$')
  if scope then return call('HDEL', P .. 'once:' .. scope, '>' .. id) end
  call('SREM', P .. 'dedupe:' .. text(math.floor(now() / window)), idem)
end

-- Like send(). A key of another kind, or a stream whose last possible id somebody used, must not end a call half way:
-- what was written would stay, what was to be written would be lost. Returns the text of the error, or nil.
local function try_send(suffix, ...)
  local sent, wrong = pcall(send, suffix, ...)
  if sent then return nil end
  touched[suffix] = nil
  return failure(wrong) or tostring(wrong)
end

-- Replies --------------------------------------------------------------------------------------------

local REPLY_KEPT = 60 -- seconds

local function send_to_process(process, id, kind, key, from, head, body)
  call('XADD', P .. 'reply:' .. process, 'MAXLEN', '~', 100000, '*', 'id', id, 'type', kind, 'key', key, 'from', from,
    'at', text(now()), 'head', head, 'body', body)
  call('EXPIRE', P .. 'reply:' .. process, REPLY_KEPT)
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

-- A handler that runs again asks again: it gets the recorded reply, or takes the place of the one who waited.
local function wait_again(id, process, window)
  begin_call(id, process, window)
  local reply = call('HMGET', P .. 'call:' .. id, 'id', 'type', 'from', 'head', 'body')
  if reply[1] then send_reply(process, unpack(reply)) end
end

-- The bytes of a reply: whoever asked fetches them.
local function lend_claim(body, ms)
  local name = claim_of(body)
  if not name or not claims[name] then return end
  call('HSET', P .. name, 'body', claims[name])
  call('PEXPIRE', P .. name, text(ms))
end

-- A reply; with a call id it is kept for another attempt of whoever asked.
local function reply_to_call(process, call_id, id, kind, from, head, body)
  local kept_for = REPLY_KEPT * 1000
  if call_id ~= '' then
    local record = P .. 'call:' .. call_id
    local to = call('HGET', record, 'to')
    -- Without a record its time is over, or the asker's message is committed: nobody asks again, and nothing would end it.
    if to then call('HSET', record, 'id', id, 'type', kind, 'from', from, 'head', head, 'body', body) end
    process = to or process
    if claims then kept_for = math.max(kept_for, call('PTTL', record)) end
  end
  if claims then lend_claim(body, kept_for) end
  send_reply(process, id, kind, from, head, body)
end

-- Parked entries -------------------------------------------------------------------------------------

local function make_ready(agent_type, key)
  call('HSET', P .. 'busy:' .. agent_type, key, '')
  call('RPUSH', P .. 'ready:' .. agent_type, key)
  ring(agent_type, 1)
end

-- Puts refs back in front of what is parked behind the key, in their order; only a reset stays before them.
local function park_in_front(agent_type, key, refs)
  local reversed, wait = {}, P .. 'wait:' .. agent_type .. ':' .. key
  for i = #refs, 1, -1 do reversed[#reversed + 1] = refs[i] end
  bulk('LPUSH', wait, reversed)
  call('HINCRBY', P .. 'parked:' .. agent_type, key, #refs)
  local urgent = call('HGET', P .. 'urgent', agent_type .. ' ' .. key)
  if urgent and call('LREM', wait, 0, urgent) > 0 then call('LPUSH', wait, urgent) end
end

local function entry_values(entry)
  if #entry == 14 and entry[1] == 'id' and entry[3] == 'type' and entry[5] == 'key' and entry[7] == 'from'
    and entry[9] == 'at' and entry[11] == 'head' and entry[13] == 'body' then
    return { entry[2], entry[4], entry[6], entry[8], entry[10], entry[12], entry[14] }
  end
  local by_name = {}
  for i = 1, #entry, 2 do by_name[entry[i]] = entry[i + 1] end
  if not by_name.type then return nil, 'the entry has no field `type`' end
  return { by_name.id or '', by_name.type, by_name.key or 'default', by_name.from or '', by_name.at or '',
    by_name.head or '', by_name.body or '' }
end

local function entry_of(suffix, id)
  local found = call('XRANGE', P .. suffix, id, id)
  return found[1] and found[1][2]
end

local DEAD_BODY = 65536 -- bytes of a body that a dead letter keeps when the body itself is too large

local function bury(agent_type, suffix, id, values, letter)
  local entry = call('XADD', P .. 'dead:' .. agent_type, '*', 'id', values[1], 'type', values[2], 'key', values[3], 'from', values[4],
    'at', values[5], 'head', values[6], 'body', values[7], 'reason', letter.reason, 'error', letter.error or '',
    'traceback', letter.traceback or '', 'attempts', letter.attempts or 0, 'stream', suffix, 'entry', id,
    'first', letter.first or text(now()), 'last', text(now()), 'worker', letter.worker or '')
  keep_claim(values[7], 'dead:' .. agent_type .. ' ' .. entry)
  call('HDEL', P .. 'tries:' .. agent_type, suffix .. ' ' .. id)
  call('HINCRBY', P .. 'stats:' .. agent_type, 'dead', 1)
  event('dead', agent_type, values[1], letter.reason)
end

-- A message that leaves with something else; where it can't go, it is a dead letter of `agent_type`.
local function send_or_bury(agent_type, suffix, due, id, kind, key, from, head, body)
  local wrong = try_send(suffix, due, id, kind, key, from, head, body)
  if wrong then
    bury(agent_type, suffix, '', { id, kind, key, from, text(now()), head, body }, { reason = 'unsendable', error = wrong })
  end
end

-- Timers ---------------------------------------------------------------------------------------------

local function fire_message(id)
  local key = P .. 'timer:' .. id
  local fields = call('HGETALL', key)
  local stream = nil
  local entry = {}
  for i = 1, #fields, 2 do
    if fields[i] == 'stream' then
      stream = fields[i + 1]
    else
      entry[fields[i]] = fields[i + 1]
    end
  end
  if stream then
    local sender = string.match(entry.from, '^([^/]+)/') or string.match(stream, ':(.*)$')
    send_or_bury(sender, stream, 0, entry.id, entry.type, entry.key, entry.from, entry.head, entry.body)
    call('DEL', key)
  end
end

local function next_due()
  local head = call('ZRANGE', P .. 'timers', 0, 0, 'WITHSCORES')
  return head[2] and tonumber(head[2])
end

-- Fires what is due. Returns when the next timer is, as text, or ''.
local function fire_due()
  local first = next_due()
  if not first then return '' end
  if first > now() then return text(first) end
  claims = claims or {}
  local due = call('ZRANGEBYSCORE', P .. 'timers', '-inf', text(now()), 'LIMIT', 0, 100)
  for i = 1, #due do
    local kind, rest = string.match(due[i], '^(%a)|(.*)$')
    if kind == 'm' then
      fire_message(rest)
    else
      local agent_type, key = string.match(rest, '^([^|]*)|(.*)$')
      if call('HGET', P .. 'busy:' .. agent_type, key) == '' then make_ready(agent_type, key) end
    end
    call('ZREM', P .. 'timers', due[i])
  end
  first = next_due()
  return first and text(first) or ''
end

-- Versions -------------------------------------------------------------------------------------------

-- Message -> version, of `<message> <version> <message> <version> ...`.
local function versions_of(line)
  local versions = {}
  for name, version in string.gmatch(line, '(%S+) (%d+)') do versions[name] = tonumber(version) end
  return versions
end

-- Whether somebody who knows these versions can read what waits as `<message> <version>`.
local function knows(versions, line)
  local name, version = string.match(line, '^(%S+) (%d+)$')
  return (versions[name] or 0) >= tonumber(version)
end

-- What some process knows: a message in a version that nobody ever knew is junk, another one waits for its worker.
local function remember_accepted(line)
  for name, version in pairs(versions_of(line)) do
    if tonumber(call('HGET', P .. 'accepts', name) or 0) < version then call('HSET', P .. 'accepts', name, version) end
  end
end

-- Reaping --------------------------------------------------------------------------------------------

local function max_attempts(agent_type)
  local line = call('HGET', P .. 'types', agent_type)
  return line and tonumber(string.match(line, '"max_attempts": *(%d+)') or 3) or 3
end

-- One more attempt for an entry whose worker died. Returns the number of attempts and the time of the first.
local function count_crash(agent_type, ref)
  local so_far = call('HGET', P .. 'tries:' .. agent_type, ref)
  local attempts, first = string.match(so_far or '', '^(%d+) (%d+)')
  attempts, first = tonumber(attempts or 0) + 1, first or text(now())
  call('HSET', P .. 'tries:' .. agent_type, ref, attempts .. ' ' .. first .. ' its worker died')
  return attempts, first
end

local function bury_crashed(agent_type, ref, attempts, first, worker)
  local suffix, id = split_ref(ref)
  local entry = entry_of(suffix, id)
  local values = entry and entry_values(entry) or { '', '', '', '', '', '', '' }
  call('XACK', P .. suffix, agent_type, id)
  bury(agent_type, suffix, id, values, {
    reason = 'crashed', error = 'the worker died each time it handled this message', attempts = attempts,
    first = first, worker = worker })
end

-- Gives the refs of one key back. With `crashed` the first of them (the one that ran) counts an attempt.
local function return_key(agent_type, key, refs, worker, crashed)
  if call('HGET', P .. 'busy:' .. agent_type, key) ~= worker then return end
  local queue = 'ready:'
  if crashed then
    local limit = max_attempts(agent_type)
    local attempts, first = count_crash(agent_type, refs[1])
    if attempts >= limit then
      bury_crashed(agent_type, table.remove(refs, 1), attempts, first, worker)
    elseif attempts == limit - 1 and limit > 1 then
      queue = 'suspects:'
    end
  end
  if #refs > 0 then park_in_front(agent_type, key, refs) end
  if call('HEXISTS', P .. 'parked:' .. agent_type, key) == 1 then
    call('HSET', P .. 'busy:' .. agent_type, key, '')
    call('RPUSH', P .. queue .. agent_type, key)
    ring(agent_type, 1)
  else
    call('HDEL', P .. 'busy:' .. agent_type, key)
  end
end

-- own:<worker> as a list of {type, key, refs in order}.
local function holdings(worker)
  local fields = call('HGETALL', P .. 'own:' .. worker)
  local by_key, list = {}, {}
  for i = 1, #fields, 2 do
    local agent_type, ref = string.match(fields[i], '^(%S+) (.*)$')
    local name = agent_type .. ' ' .. fields[i + 1]
    local held = by_key[name]
    if not held then
      held = { type = agent_type, key = fields[i + 1], refs = {} }
      by_key[name] = held
      list[#list + 1] = held
    end
    held.refs[#held.refs + 1] = ref
  end
  for i = 1, #list do
    table.sort(list[i].refs, function(a, b)
      local _, x = split_ref(a)
      local _, y = split_ref(b)
      return sortable(x) < sortable(y)
    end)
  end
  return list
end

-- What a consumer leaves in the pending lists moves to `heir`, so that redis-cli still shows it; then the consumer goes.
local function move_pending(agent_type, suffix, worker, heir)
  for _ = 1, 20 do
    local pending = redis.pcall('XPENDING', P .. suffix, agent_type, '-', '+', CHUNK, worker)
    if failure(pending) or #pending == 0 then break end
    local ids = {}
    for i = 1, #pending do ids[i] = pending[i][1] end
    ids[#ids + 1] = 'JUSTID' -- in the list: followed by another argument, unpack() gives its first value only
    call('XCLAIM', P .. suffix, agent_type, heir, 0, unpack(ids))
  end
end

local function forget_consumer(worker, types, heir)
  for _, agent_type in ipairs(types) do
    for _, suffix in ipairs(call('SMEMBERS', P .. 'streams:' .. agent_type)) do
      move_pending(agent_type, suffix, worker, heir)
      -- With the consumer its pending entries would go, and trimming must not take what is still parked.
      local left = redis.pcall('XPENDING', P .. suffix, agent_type, '-', '+', 1, worker)
      if not failure(left) and #left == 0 then redis.pcall('XGROUP', 'DELCONSUMER', P .. suffix, agent_type, worker) end
    end
  end
end

-- Ends a worker: everything it held goes back in front, in order; it can never commit again.
local function reap(worker, crashed)
  local list = holdings(worker)
  for i = 1, #list do return_key(list[i].type, list[i].key, list[i].refs, worker, crashed) end
  local types = words(call('HGET', P .. 'worker:' .. worker, 'types') or '')
  for i = 1, #types do
    if #list > 0 then call('HINCRBY', P .. 'stats:' .. types[i], 'reaped', 1) end
  end
  forget_consumer(worker, types, 'nobody')
  call('DEL', P .. 'own:' .. worker, P .. 'worker:' .. worker)
  call('ZREM', P .. 'workers', worker)
  event(crashed and 'reaped' or 'left', worker, #list .. ' keys')
end

-- Groups ---------------------------------------------------------------------------------------------

-- Pending entries of a group that was destroyed and made again are pending once more, so that trimming spares them.
local function adopt(agent_type, suffix, taken)
  local function claim(ref)
    local its_suffix, id = split_ref(ref)
    if its_suffix == suffix then redis.pcall('XCLAIM', P .. suffix, agent_type, 'nobody', 0, id, 'FORCE', 'JUSTID') end
  end
  for _, key in ipairs(call('HKEYS', P .. 'parked:' .. agent_type)) do
    for _, ref in ipairs(call('LRANGE', P .. 'wait:' .. agent_type .. ':' .. key, 0, -1)) do claim(ref) end
  end
  for _, member in ipairs(call('ZRANGE', P .. 'early:' .. agent_type, 0, -1)) do
    claim(string.match(member, '^[^|]*|(.*)$'))
  end
  for _, other in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    for _, field in ipairs(call('HKEYS', P .. 'own:' .. other)) do
      local its_type, ref = string.match(field, '^(%S+) (.*)$')
      if its_type == agent_type then claim(ref) end
    end
  end
  for i = 1, #taken, 2 do
    local its_type, ref = string.match(taken[i], '^(%S+) (.*)$')
    if its_type == agent_type then claim(ref) end
  end
end

-- A group that vanished goes on where it was: what was handled is not handled again.
local function mend_group(agent_type, suffix, taken)
  local cursor = call('HGET', P .. 'cursor:' .. agent_type, suffix) or '0'
  create_group(suffix, agent_type, cursor)
  if cursor ~= '0' then adopt(agent_type, suffix, taken or {}) end
  event('group made again', agent_type, suffix, cursor)
end
