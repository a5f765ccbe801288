-- New entries of streams, for a type: which streams are read, and what becomes of what was read.

-- A turn reads so many streams; of a type that comes after others at least so many.
local STREAMS, STREAMS_AT_LEAST = 192, 32

-- Of more streams than a turn reads, all of which may hold entries of the same millisecond: those of which least of it was
-- read, and the order from which on the others may hold some. Without looking, the same streams would be read in each turn,
-- and nothing of them given, since it could be newer than what the others hold. `chosen`: streams that are read as well.
local function least_read(agent_type, fresh, ms, most, chosen)
  local suffixes, untouched, begun, last = call('ZRANGEBYSCORE', fresh, ms, ms), {}, {}, {}
  local cursors = bulk_get(P .. 'cursor:' .. agent_type, suffixes)
  for i = 1, #suffixes do
    local suffix, cursor_ms, n = suffixes[i], string.match(cursors[i] or '', '^(%d+)%-(%d+)$')
    -- guard: streams of which nothing was read come first
    local list = tonumber(cursor_ms) == tonumber(ms) and begun or untouched
    list[#list + 1], last[suffix] = suffix, tonumber(n)
  end
  most = most - #chosen
  if #untouched <= most then table.sort(begun, function(a, b) return last[a] < last[b] end) end
  for i = 1, most do chosen[#chosen + 1] = untouched[i] or begun[i - #untouched] end
  local left = #untouched <= most and begun[most + 1 - #untouched]
  return chosen, left and sortable(ms .. '-' .. text(last[left])) or string.format('%016.0f', ms)
end

-- The streams with the oldest unread entries, of those that may hold one before `bound` where there is one. Where there are
-- more, also the order from which on those may hold some.
local function oldest_fresh(turn, agent_type, bound)
  local most = math.max(STREAMS_AT_LEAST, STREAMS - turn.streams)
  local fresh = turn.terms.keys[agent_type].fresh
  local last = bound and string.match(bound, '^%d+')
  local suffixes = last and call('ZRANGEBYSCORE', fresh, '-inf', last, 'LIMIT', '0', digits(most + 1))
    or call('ZRANGE', fresh, '0', digits(most))
  local horizon = suffixes[most + 1]
  suffixes[most + 1] = nil
  turn.streams = turn.streams + #suffixes
  if not horizon then return suffixes end
  local ms, looked_at = tonumber(call('ZSCORE', fresh, horizon)), 0
  local first = tonumber(call('ZSCORE', fresh, suffixes[1]))
  -- guard: what a look at all streams names is read beside streams of one millisecond
  if first == 0 and ms > 0 then
    looked_at = call('ZCOUNT', fresh, '0', '0')
    first = tonumber(call('ZSCORE', fresh, suffixes[looked_at + 1] or horizon))
  end
  -- guard: as many streams of one millisecond as there may be are all read
  if ms > 0 and first == ms then return least_read(agent_type, fresh, text(ms), most, { unpack(suffixes, 1, looked_at) }) end
  -- guard: streams that are not read yet hold back what is newer
  return suffixes, string.format('%016.0f', ms)
end

-- What is paused is parked behind its agents, so that what came later by other streams waits for it. It is read no sooner
-- than there is something that could overtake it: until then a paused backlog costs nothing.
local function add_paused(turn, agent_type, streams, suffixes, paused)
  -- guard: nothing overtakes what is paused
  for _, stream in ipairs(read_paused(turn, agent_type, paused)) do streams[#streams + 1] = stream end
  for i = 1, #paused do suffixes[#suffixes + 1] = paused[i] end
end

-- The streams of topics that are not paused, and of those that are.
local function apart_by_pause(turn, suffixes)
  local going, paused = {}, {}
  for i = 1, #suffixes do
    local list = turn.paused[suffixes[i]] and paused or going
    list[#list + 1] = suffixes[i]
  end
  return going, paused
end

-- Without these nothing of a type is taken: an agent could be given to two workers, or be overtaken. They are looked at when
-- there is something to take, once in a turn; those of the worker as well, unless it has committed what stood in them.
local function has_books(turn, agent_type)
  local keys = turn.terms.keys[agent_type]
  -- What is not there is of no wrong type: neither what the worker holds, nor who is busy.
  if turn.is_calm and turn.commits.n == 0 and (this.is_bare or call('EXISTS', turn.own, keys.busy) == 0) then return true end
  if turn.is_bookless == nil then
    -- guard: a worker without books takes nothing
    turn.is_bookless = turn.commits.n == 0 and not has_own_books(turn.worker)
  end
  if turn.is_bookless then return false end
  local known = turn.books[agent_type]
  if known == nil then
    if turn.books == NONE then turn.books, turn.any_parked, turn.any_busy = {}, {}, {} end
    turn.any_busy[agent_type] = call('HLEN', keys.busy) > 0
    turn.any_parked[agent_type] = not turn.is_calm and call('HLEN', keys.parked) > 0
    -- guard: nothing is taken without books
    known = not this.unusable or not is_unusable('busy:' .. agent_type) and not is_unusable('parked:' .. agent_type)
    turn.books[agent_type] = known
  end
  return known
end

local function pull_new(turn, agent_type, count)
  if turn.scan == SCAN then freshen(agent_type) end
  local early = turn.is_quiet and 0 or call('ZCARD', P .. 'early:' .. agent_type)
  -- Enough may have been read ahead already: then only streams that may hold something older are read, so that a backlog
  -- in many streams is not read ahead as a whole, and nothing is given beyond it.
  local bound = early >= count and string.match(call('ZRANGE', P .. 'early:' .. agent_type, count - 1, count - 1)[1], '^[^|]*')
  local suffixes, horizon = oldest_fresh(turn, agent_type, bound)
  -- What would have to be read ahead could be kept nowhere.
  if this.unusable and is_unusable('early:' .. agent_type) then return end
  if #suffixes == 0 and early == 0 or not has_books(turn, agent_type) then return end
  local paused = NONE
  if bound and #suffixes > 0 then suffixes = behind_early(agent_type, suffixes, bound) end
  if turn.paused then suffixes, paused = apart_by_pause(turn, suffixes) end
  -- What is read beyond what is given is kept, and read once more. A type has two streams, a topic and its inbox, more often
  -- than any other number, and then one of them is mostly empty.
  local each = #suffixes > 2 and math.max(4, math.ceil(count / #suffixes)) or count
  local streams = #suffixes > 0 and read_streams(turn, agent_type, each, suffixes) or NONE
  if #paused > 0 and (#streams > 0 or early > 0 or horizon) then
    if streams == NONE then streams = {} end
    add_paused(turn, agent_type, streams, suffixes, paused)
  end
  local before = turn.given
  if #streams > 0 and early == 0 and not horizon then usual.give(turn, agent_type, streams, count) end
  count = count - (turn.given - before)
  local list, cutoff = gather(turn, agent_type, streams, suffixes, not (horizon or bound))
  if horizon or bound then turn.more = true end
  if #list == 0 and early == 0 then return end
  cutoff = ahead.earlier(ahead.earlier(cutoff, bound), horizon)
  if #streams > 1 or early > 0 or horizon or #list > count then
    admit_merged(turn, agent_type, list, cutoff, count)
  else
    admit(turn, agent_type, list)
  end
end
