-- Entries of streams: the only place that writes and reads their fields: id, type, key, from, at, head, body. In between, an
-- entry is a list of these seven values. A reference, `<stream suffix> <entry id>`, names an entry in other keys.
--
-- Each field costs what a small command does, to be written and again to be read. So a message leaves out `from` and `head`
-- where both are empty, and `at` where the id of the entry says it. Versions before that read it as what a person adds by hand.

local ID, TYPE, KEY, FROM, AT, HEAD, BODY = 1, 2, 3, 4, 5, 6, 7 -- places in the list

-- The fields as XADD and HSET take them.
local function entry_fields(id, kind, key, from, at, head, body)
  return 'id', id, 'type', kind, 'key', key, 'from', from, 'at', at, 'head', head, 'body', body
end

-- With this id, or one of the server's. A topic that nobody takes is cut by what is added to it, once in a call: a right of
-- its own to cut streams is more than a publisher needs.
local function xadd(run, suffix, id, ...)
  if this.unclaimed[suffix] and this.max_unclaimed then
    this.unclaimed[suffix] = nil
    return run('XADD', P .. suffix, 'MAXLEN', '~', this.max_unclaimed, id, ...)
  end
  return run('XADD', P .. suffix, id, ...)
end

-- Ways to add an entry to a stream.
local append = {}

-- Returns the id of the entry. One that a person added by hand may have an id above our clock: then the
-- server chooses the next one, and the clock goes on from there. (It is not asked for the last one: what tells it shows
-- messages as well.)
function append.with_fields(suffix, ...)
  local entry_id, added = (next_id()), nil
  -- To hand on so many values once more costs what a command does.
  if this.unclaimed[suffix] then
    added = xadd(redis.pcall, suffix, entry_id, ...)
  else
    added = redis.pcall('XADD', P .. suffix, entry_id, ...)
  end
  if added == entry_id then return entry_id end
  local wrong = failure(added)
  if not string.find(wrong, 'equal or smaller', 1, true) then return xadd(must, suffix, entry_id, ...) end
  entry_id = xadd(call, suffix, '*', ...)
  step_over(entry_id)
  return entry_id
end

-- A message, as an entry of a stream that takes it as it is, and nobody has to cut; else nil, and nothing was added.
function append.at_once(suffix, id, kind, key, from, head, body)
  local entry_id, is_now, added = next_id()
  if not is_now or this.unclaimed[suffix] then return nil end
  if from == '' and head == '' then
    added = redis.pcall('XADD', P .. suffix, entry_id, 'id', id, 'type', kind, 'key', key, 'body', body)
  else
    added = redis.pcall('XADD', P .. suffix, entry_id, 'id', id, 'type', kind, 'key', key, 'from', from, 'head', head, 'body', body)
  end
  return added == entry_id and entry_id or nil
end

-- The same for messages of one type that stand among the arguments from this place on, each as id, key, body, or as id, key, from,
-- head, body. Returns how many were added, up to the first that the stream does not take as it is.
function append.all_at_once(suffix, kind, at, count, is_headed)
  local stream, add = P .. suffix, redis.pcall
  for i = 0, count - 1 do
    local entry_id, is_now = next_id()
    local added = nil
    if is_now and is_headed then
      added = add('XADD', stream, entry_id, 'id', ARGV[at], 'type', kind, 'key', ARGV[at + HEADED_KEY], 'from', ARGV[at + HEADED_FROM],
        'head', ARGV[at + HEADED_HEAD], 'body', ARGV[at + HEADED_BODY])
      at = at + HEADED_WIDTH
    elseif is_now then
      added = add('XADD', stream, entry_id, 'id', ARGV[at], 'type', kind, 'key', ARGV[at + PLAIN_KEY], 'body', ARGV[at + PLAIN_BODY])
      at = at + PLAIN_WIDTH
    end
    if added ~= entry_id then return i end
  end
  return count
end

-- A message, as an entry, in whatever way it takes. Returns its id.
function append.message(suffix, id, kind, key, from, head, body)
  return append.at_once(suffix, id, kind, key, from, head, body)
    or append.with_fields(suffix, entry_fields(id, kind, key, from, now_as_text(), head, body))
end

-- The list of values, of fields as the server gives them: mostly in our order, in any other when a person added the
-- entry. Without a type it is no message: then nil, and why.
local function entry_values(flat)
  local n = #flat
  if n == 8 and flat[1] == 'id' and flat[3] == 'type' and flat[5] == 'key' and flat[7] == 'body' then
    return { flat[2], flat[4], flat[6], '', '', '', flat[8] }
  end
  if n == 12 and flat[1] == 'id' and flat[3] == 'type' and flat[5] == 'key' and flat[7] == 'from'
    and flat[9] == 'head' and flat[11] == 'body' then
    return { flat[2], flat[4], flat[6], flat[8], '', flat[10], flat[12] }
  end
  if n == 14 and flat[1] == 'id' and flat[3] == 'type' and flat[5] == 'key' and flat[7] == 'from'
    and flat[9] == 'at' and flat[11] == 'head' and flat[13] == 'body' then
    return { flat[2], flat[4], flat[6], flat[8], flat[10], flat[12], flat[14] }
  end
  local fields = by_name(flat)
  if not fields.type then return nil, 'the entry has no field `type`' end
  return { fields.id or '', fields.type, fields.key or 'default', fields.from or '', fields.at or '', fields.head or '',
    fields.body or '' }
end

-- The fields of an entry, or nil when it is gone.
local function entry_of(suffix, id)
  local found = call('XRANGE', P .. suffix, id, id)
  return found[1] and found[1][2]
end

-- The values of an entry, all of them empty when it is gone or no message.
local function values_or_blank(suffix, id)
  local flat = entry_of(suffix, id)
  return flat and entry_values(flat) or { '', '', '', '', '', '', '' }
end

-- The id of a message whose entry a person added without one. The entry's own id may stand in another stream as well.
-- callboard/broker/envelope.py says the same.
local function name_of(suffix, entry_id) return suffix .. ':' .. entry_id end

-- What a person wrote where a reference should be names an entry that is gone.
local function split_ref(ref)
  local suffix, id = string.match(ref or '', '^(%S+) (%d+%-%d+)$')
  -- guard: what is no reference stops no worker
  return suffix or '', id or '0-0'
end
