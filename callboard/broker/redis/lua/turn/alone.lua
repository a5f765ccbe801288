-- Turns of messages that come one at a time: the one that waited at a bell and finds nothing but one new message, and the one that
-- commits it. They take half the steps of any other. Where something is not as usual, the turn goes on as any other does.

local FEW_TYPES = 8 -- of a worker whose streams are looked at here

local alone = {}

-- Whether nobody is busy, this worker holds nothing, and there is nothing but new entries. What is not there is of no wrong
-- type, either.
local function is_bare(terms, worker)
  local keys = terms.bare
  return #keys < MOST_KEYS and call('EXISTS', P .. 'own:' .. worker, unpack(keys)) == 0
end

-- The only stream that may hold something, and its type; nil when there is none, and false where there are more.
function alone.fresh(terms)
  local found, its_type = nil, nil
  for i = 1, #terms.types do
    local agent_type = terms.types[i]
    local fresh = call('ZRANGE', terms.keys[agent_type].fresh, '0', '1')
    if fresh[2] or fresh[1] and found then return false end
    if fresh[1] then found, its_type = fresh[1], agent_type end
  end
  return found, its_type
end

-- The entry and the key of its agent, where it is all that the stream held, and as publishers store it; else nil.
local function only_entry(terms, got)
  local entries = got and not got.err and got[1][2]
  if not entries or #entries > 1 then return nil end
  local key = usual.keys_of(terms.max_body, entries)[1]
  -- guard: a stream that may hold more after one entry is read on
  if not key or ARGV.wanted == '1' and not is_newest(entries[1][1]) then return nil end
  return entries[1], key
end

local function give_alone(terms, worker, last, agent_type, suffix, entry, key)
  local id, flat, keys = entry[1], entry[2], terms.keys[agent_type]
  call('ZREM', keys.fresh, suffix)
  call('HSET', keys.cursor, suffix, id)
  call('SADD', P .. 'grown', suffix)
  -- guard: an agent whose message came alone is busy
  call('HSET', keys.busy, key, worker)
  -- guard: a message that came alone is held
  call('HSET', P .. 'own:' .. worker, agent_type .. ' ' .. suffix .. ' ' .. id, key)
  if #flat == 8 then return { 'OK', '', '', '', last, agent_type, suffix, flat[4], id, flat[2], key, flat[8] } end
  return { 'OK', '', '', '', last, agent_type, suffix, flat[4], id, flat[2], key, flat[8], flat[10], flat[12] }
end

-- The answer of a turn that waited at a bell; nil where it has to go on.
function alone.take(worker, last)
  local terms, wanted = terms_of(ARGV.terms), number_of(ARGV.wanted)
  if ARGV.count ~= '0' or #terms.types > FEW_TYPES or wanted < 1 or wanted > MOST_TAKEN then return nil end
  -- guard: what comes alone is given where nothing is out of the ordinary
  if not is_bare(terms, worker) then return nil end
  this.is_bare = true
  local suffix, agent_type = alone.fresh(terms)
  if suffix == nil then return { 'OK', '', '', '', last } end
  if not suffix or terms.persistent[agent_type] or terms.rate[agent_type] then return nil end
  local got = redis.pcall('XREADGROUP', 'GROUP', agent_type, worker, 'COUNT', ARGV.wanted, 'STREAMS', P .. suffix, '>')
  local entry, key = only_entry(terms, got)
  if entry then return give_alone(terms, worker, last, agent_type, suffix, entry, key) end
  -- guard: what was read is given, in whatever way
  this.was_read = got
  return nil
end

-- Whether the turn has one commit of which nothing is written but a reply, and there is nothing but new entries and agents that run.
local function is_lone_commit(terms)
  if ARGV.count ~= '1' then return false end
  local agent_type, suffix, mode = ARGV.type, ARGV.stream, mode_of(ARGV.mode)
  if not mode.is_simple or mode.has_reply and ARGV.call ~= '' then return false end
  -- A type of which the worker takes nothing is not among its terms.
  if terms.rate[agent_type] == nil or string.sub(suffix, 1, 7) == 'urgent:' or #terms.around > MOST_KEYS then return false end
  return call('EXISTS', unpack(terms.around)) == 0
end

-- Writes the only commit of a turn. Returns whether it was written; if not, nothing was done.
function alone.commit(worker)
  local terms = terms_of(ARGV.terms)
  -- guard: a commit is written alone where nothing is out of the ordinary
  if not is_lone_commit(terms) then return false end
  local agent_type, suffix, id = ARGV.type, ARGV.stream, ARGV.entry
  -- guard: only what is held is committed alone
  if call('HDEL', P .. 'own:' .. worker, agent_type .. ' ' .. suffix .. ' ' .. id) == 0 then return false end
  -- guard: a commit that comes alone acknowledges
  redis.pcall('XACK', P .. suffix, agent_type, id)
  -- guard: a commit that comes alone sends its reply
  if ARGV.mode ~= COMMIT then send_reply(ARGV.process, ARGV.id, ARGV.kind, ARGV.from, ARGV.head, ARGV.body) end
  local keys = terms.keys[agent_type]
  -- guard: an agent is free after a commit that comes alone
  call('HDEL', keys.busy, ARGV.key)
  call('HINCRBY', keys.stats, 'done', '1')
  return true
end
