-- Runs: what happens in a piece of work, for everybody who reads along.
--
-- run:<id>  stream  entries 0-1, 0-2, ...: at, type, v, body; a draft has a tag as well: it is shown while work is under way, and
--                   goes when its writer says what came of it. The stream goes some time after it was last written to
-- runs      zset    run -> when its stream got its first entry, server ms
-- config    hash    `runs`: how many of the oldest runs were looked at, and are there still

local MOST_SETTLED, LEAST_SETTLED = 2000, 20 -- entries that are looked at for drafts, and in any case at once
local PAGE = 500 -- entries that are read at a time
local LOOKED_AT = 4 -- old runs that are looked at for each that begins: more than come, so that the list does not grow

-- Removes drafts: `<number of the first> <length of the run's id> <run><beginning of their tags>`, from an entry on back:
-- `<entry> <how many entries are looked at>`. Ids and tags may have anything in them.
STEPS.settle = function(what, place)
  local since, length, names = string.match(what, '^(%d+) (%d+) (.*)$')
  local run, prefix = string.sub(names, 1, length), string.sub(names, length + 1)
  local last, left = string.match(place, '^(%S+) (%d+)$')
  -- guard: many drafts are settled in portions
  local most = math.min(tonumber(left), math.max(LEAST_SETTLED, room_for_chores()))
  local key, drafts = P .. 'run:' .. run, {}
  local page = call('XREVRANGE', key, last, '0-' .. since, 'COUNT', most)
  for i = 1, #page do
    local tag = by_name(page[i][2]).tag
    if tag and string.sub(tag, 1, #prefix) == prefix then drafts[#drafts + 1] = page[i][1] end
  end
  -- guard: drafts go when they are settled
  bulk('XDEL', key, drafts)
  this.looked_at = (this.looked_at or 0) + #page
  return #page == most and most < tonumber(left) and '(' .. page[most][1] .. ' ' .. text(left - most) or nil
end

-- The place from which both are done, of one that has just begun and one of the same drafts that was under way.
local function covering(place, before)
  local from, left = string.match(place, '^%(0%-(%d+) (%d+)$')
  local below, more = string.match(before, '^%(0%-(%d+) (%d+)$')
  if not below then return place end
  return '(0-' .. from .. ' ' .. text(math.max(tonumber(left), tonumber(from) - tonumber(below)) + tonumber(more))
end

-- The newest of them go at once, as many as there is room for: before what came of them is written.
local function settle_drafts(run, prefix, since)
  local what = since .. ' ' .. #run .. ' ' .. run .. prefix
  local reached = STEPS.settle(what, '+ ' .. MOST_SETTLED)
  if not reached then return end
  local before = call('HGET', P .. 'chores', 'settle ' .. what)
  -- guard: drafts that are settled again are settled as far as before
  if before then reached = covering(reached, before) end
  -- guard: drafts that a call has no room for go later
  call('HSET', P .. 'chores', 'settle ' .. what, reached)
end

-- The last number that was given in a stream which has an entry of another kind behind it; none was above the number of all
-- entries that there ever were.
local function last_number(key, about)
  local ours = call('XREVRANGE', key, '0-18446744073709551615', '-', 'COUNT', 1)[1]
  local deleted = string.match(about['max-deleted-entry-id'], '^0%-(%d+)$')
  local highest = ours and string.sub(ours[1], 3) or 0
  return text(math.max(tonumber(highest), tonumber(deleted or 0), tonumber(about['entries-added'])))
end

-- Takes what a person added with ids that ours can't follow out of a stream, and lets ours go on where they were. A server lets
-- ids go back in two steps, whatever the stream holds: first it forgets that a higher one was deleted. Where it refuses, as
-- memory:// does, no event can be added.
local function take_out_foreign(key)
  local about = by_name(call('XINFO', 'STREAM', key))
  local last = '0-' .. last_number(key, about)
  repeat
    local page = call('XRANGE', key, '1-0', '+', 'COUNT', PAGE)
    for i = 1, #page do page[i] = page[i][1] end
    bulk('XDEL', key, page)
  until #page < PAGE
  redis.pcall('XSETID', key, about['last-generated-id'], 'ENTRIESADDED', about['entries-added'], 'MAXDELETEDID', last)
  redis.pcall('XSETID', key, last)
end

-- Adds an event; returns its id and whether something was taken out for it, or nil where the stream takes none: its key holds something else, or a person added an entry
-- with the last id that there is.
local function add_event(key, most, tag, at)
  local entry = { 'at', now_as_text(), 'type', ARGV[at], 'v', ARGV[at + EVENT_VERSION], 'body', ARGV[at + EVENT_BODY] }
  if tag ~= '' then entry[9], entry[10] = 'tag', tag end
  local added = redis.pcall('XADD', key, 'MAXLEN', '~', most, '0-*', unpack(entry))
  local wrong = failure(added)
  if not wrong then return added end
  local is_behind = string.find(wrong, 'equal or smaller', 1, true)
  if not is_wrong_type(wrong) and not is_behind then error(wrong, 0) end
  note_unusable(key, wrong)
  -- guard: an entry that a person added to a run stops nobody
  if is_behind then
    take_out_foreign(key)
    added = redis.pcall('XADD', key, 'MAXLEN', '~', most, '0-*', unpack(entry))
    if not failure(added) then return added, true end
  end
end

-- A run that begins stands in the list of runs, and the oldest ones whose streams have gone by themselves leave it.
local function list_run(run, kept_for)
  local runs, at = P .. 'runs', tonumber(call('HGET', P .. 'config', 'runs') or 0)
  call('ZADD', runs, now_as_text(), run)
  local page, gone = call('ZRANGE', runs, text(at), text(at + LOOKED_AT - 1), 'WITHSCORES'), {}
  local kept, before = at, now() - tonumber(kept_for)
  for i = 1, #page, 2 do
    if tonumber(page[i + 1]) > before then
      kept = 0
      break
    end
    if call('EXISTS', P .. 'run:' .. page[i]) == 0 then gone[#gone + 1] = page[i] else kept = kept + 1 end
  end
  -- guard: the list of runs forgets those that are gone
  bulk('ZREM', runs, gone)
  if #page < 2 * LOOKED_AT then kept = 0 end
  if kept ~= at then call('HSET', P .. 'config', 'runs', text(kept)) end
end

-- The argument behind a write that begins with this one.
local function behind_write(at) return at + WRITE_WIDTH + EVENT_WIDTH * tonumber(ARGV[at + WRITE_COUNT]) end

-- One write: run, most entries that it keeps, how long it is kept (ms), tag or '', beginning of the tags of drafts that are
-- settled or '', number from which on these may stand, count, then for each event: type, version, body.
-- Returns the id of the first event, '' when it has none; or nil when they can't be written.
local function write_run(at)
  local run, most, kept_for = ARGV[at], ARGV[at + WRITE_MOST], ARGV[at + WRITE_KEPT_FOR]
  local tag, settles, key = ARGV[at + WRITE_TAG], ARGV[at + WRITE_SETTLES], P .. 'run:' .. run
  if settles ~= '' then settle_drafts(run, settles, ARGV[at + WRITE_SINCE]) end
  local first = ''
  for i = at + WRITE_WIDTH, behind_write(at) - 1, EVENT_WIDTH do
    local added, is_mended = add_event(key, most, tag, i)
    if not added then return nil end
    -- guard: a run that begins is listed
    if added == '0-1' or is_mended then list_run(run, kept_for) end
    if first == '' then first = added end
  end
  -- guard: a run is kept for some time after its last event
  if first ~= '' then call('PEXPIRE', key, kept_for) end
  return first
end
