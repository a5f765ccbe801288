-- How much of a stream a group was not given.
--
-- The server's own count, `lag`, is no more than a bound: its file and its replicas get how far a group is, and not how many
-- entries it has read, so that after a crash or a failover what was read since the file was last written anew counts as
-- unread, for ever; what was trimmed by hand counts as well. The ends of the stream tell mostly, and where the group is
-- between them the shorter side is counted.

local COUNT_PAGE, MOST_COUNTED, MOST_COUNTED_BYTES = 100, 1000, 8000000
local SHORT, SHORT_PAGE = 20, 10 -- entries that all of a short call counts, and of one command of it

local function bytes_of(entries)
  local size = 0
  for i = 1, #entries do
    for j = 1, #entries[i][2] do size = size + #entries[i][2][j] end
  end
  return size
end

-- The number of entries between two ids, or nil when there are too many, or more than is left of a short call.
local function count_between(stream, from, to)
  local count, size, most, page = 0, 0, this.countable or MOST_COUNTED, this.countable and SHORT_PAGE or COUNT_PAGE
  while count <= most and size <= MOST_COUNTED_BYTES do
    local entries = call('XRANGE', stream, from, to, 'COUNT', page)
    count, size = count + #entries, size + bytes_of(entries)
    if this.countable then this.countable = this.countable - #entries end
    if #entries < page then return count end
    from = '(' .. entries[#entries][1]
  end
  return nil
end

-- What the ends of a stream say: 0 or all of it, else nil. Where the user may not read it, also that it failed.
local function unread_by_ends(stream, position)
  local last = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  if failure(last) then return nil, true end
  -- guard: what was handled before a crash of the server is not unread
  if not last[1] or sortable(last[1][1]) <= sortable(position) then return 0 end
  local first = call('XRANGE', stream, '-', '+', 'COUNT', 1)
  return sortable(first[1][1]) > sortable(position) and call('XLEN', stream) or nil
end

-- By how much the server counts too many, which stays while it runs: stream and group -> how many, and until when we say so.
local EXCESS_KEPT, MOST_EXCESS = 2000, 1000
local excess, excess_n = {}, 0

local function remember_excess(of, number)
  if excess_n >= MOST_EXCESS then excess, excess_n = {}, 0 end
  if not excess[of] then excess_n = excess_n + 1 end
  excess[of] = { number, now() + EXCESS_KEPT }
end

-- A group as XINFO GROUPS shows it. Nil where it is not known: the server does not say (after deletions, or of a group that was
-- made in the middle), and both sides of the group's position are too long to be counted here.
local function unread_of(suffix, group)
  local stream, position, lag = P .. suffix, group['last-delivered-id'], tonumber(group.lag or nil)
  if lag == 0 then return 0 end
  local unread, refused = unread_by_ends(stream, position)
  if unread or refused then return unread or lag end
  local of = stream .. ' ' .. (group.name or '')
  local known = excess[of]
  if lag and known and known[2] > now() then return math.max(0, lag - known[1]) end
  local length = call('XLEN', stream)
  local before = count_between(stream, '-', position)
  unread = before and length - before or count_between(stream, '(' .. position, '+')
  if lag and unread then remember_excess(of, lag - unread) end
  return unread or lag and math.min(lag, length)
end

-- Sets a count of the server right that the ends of the stream show to be wrong: for publishers that may not look at the
-- stream, and for people who do so with redis-cli. Returns whether it is right, as far as there is one.
local function mend_count(suffix, group)
  local stream, position, lag = P .. suffix, group['last-delivered-id'], tonumber(group.lag or nil)
  if not lag or lag == 0 then return true end
  local unread = unread_by_ends(stream, position)
  if not unread or unread >= lag then return unread ~= nil end
  local added = by_name(call('XINFO', 'STREAM', stream))['entries-added']
  -- Rules of a user that an older version has printed do not allow it.
  redis.pcall('XGROUP', 'SETID', stream, group.name, position, 'ENTRIESREAD', added - unread)
  excess[stream .. ' ' .. group.name] = nil
  return true
end
