-- Runs: what happens in a piece of work, for everybody who reads along.
--
-- run:<id>  stream  entries 0-1, 0-2, ...: at, type, v, body; a draft has a tag as well: it is shown while work is under way, and
--                   goes when its writer says what came of it. The stream goes some time after it was last written to

local MOST_SETTLED, PAGE = 2000, 500 -- entries that one write looks at for drafts, and how many of them at a time
local WRITE = 7 -- arguments of a write, before those of its events

-- Removes the drafts whose tags begin with this, from the end back to a number.
local function settle_drafts(key, prefix, since)
  local last, drafts = '+', {}
  for _ = 1, MOST_SETTLED, PAGE do
    local page = call('XREVRANGE', key, last, '0-' .. since, 'COUNT', PAGE)
    for i = 1, #page do
      local tag = by_name(page[i][2]).tag
      if tag and string.sub(tag, 1, #prefix) == prefix then drafts[#drafts + 1] = page[i][1] end
    end
    if #page < PAGE then break end
    last = '(' .. page[PAGE][1]
  end
  -- guard: drafts go when they are settled
  bulk('XDEL', key, drafts)
end

-- Adds an event; returns its id, or nil where the stream takes none: its key holds something else, or a person added an entry
-- with an id that ours can't follow.
local function add_event(key, most, tag, at)
  local entry = { 'at', now_as_text(), 'type', ARGV[at], 'v', ARGV[at + 1], 'body', ARGV[at + 2] }
  if tag ~= '' then entry[9], entry[10] = 'tag', tag end
  local added = redis.pcall('XADD', key, 'MAXLEN', '~', most, '0-*', unpack(entry))
  local wrong = failure(added)
  if not wrong then return added end
  if not is_wrong_type(wrong) and not string.find(wrong, 'equal or smaller', 1, true) then error(wrong, 0) end
  note_unusable(key, wrong)
end

-- The argument behind a write that begins with this one.
local function behind_write(at) return at + WRITE + 3 * tonumber(ARGV[at + WRITE - 1]) end

-- One write: run, most entries that it keeps, how long it is kept (ms), tag or '', beginning of the tags of drafts that are
-- settled or '', number from which on these may stand, count, then for each event: type, version, body.
-- Returns the id of the first event, '' when it has none; or nil when they can't be written.
local function write_run(at)
  local key, most, kept_for, tag, settles = P .. 'run:' .. ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  if settles ~= '' then settle_drafts(key, settles, ARGV[at + 5]) end
  local first = ''
  for i = at + WRITE, behind_write(at) - 1, 3 do
    local added = add_event(key, most, tag, i)
    if not added then return nil end
    if first == '' then first = added end
  end
  -- guard: a run is kept for some time after its last event
  if first ~= '' then call('PEXPIRE', key, kept_for) end
  return first
end
