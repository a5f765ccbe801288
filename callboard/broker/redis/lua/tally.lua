-- How many entries there are for each agent: of a stream from an id on, or of those that a type read ahead. Writes nothing.
--
-- ARGV: 'stream', suffix, id to begin with (`(<id>`: behind it) | 'early', agent type, place to begin with
-- Returns {where to go on or '', agent key, entries, id of the first of them, ...}: the next call goes on there.

local PAGE, MOST, MOST_BYTES = 20, 1000, 4000000 -- a body may be as large as a message may be

local function new_tally() return { keys = {}, count = {}, first = {}, entries = 0, bytes = 0 } end

local function add(tally, id, flat)
  local values = entry_values(flat)
  local key = values and values[KEY] or 'default'
  if not tally.count[key] then
    tally.keys[#tally.keys + 1], tally.count[key], tally.first[key] = key, 0, id
  end
  tally.count[key] = tally.count[key] + 1
  tally.entries = tally.entries + 1
  for i = 1, #flat do tally.bytes = tally.bytes + #flat[i] end
end

local function is_enough(tally) return tally.entries >= MOST or tally.bytes >= MOST_BYTES end

local function tally_stream(tally, suffix, from)
  while not is_enough(tally) do
    local entries = call('XRANGE', P .. suffix, from, '+', 'COUNT', PAGE)
    for i = 1, #entries do add(tally, entries[i][1], entries[i][2]) end
    if #entries < PAGE then return '' end
    from = '(' .. entries[#entries][1]
  end
  return from
end

local function tally_early(tally, agent_type, place)
  while not is_enough(tally) do
    local members = call('ZRANGE', P .. 'early:' .. agent_type, place, place + PAGE - 1)
    for i = 1, #members do
      local suffix, id = split_ref(string.match(members[i], '^[^|]*|(.*)$'))
      add(tally, id, entry_of(suffix, id) or {})
    end
    if #members < PAGE then return '' end
    place = place + PAGE
  end
  return text(place)
end

local function tally_all()
  local tally = new_tally()
  local next = ARGV.what == 'stream' and tally_stream(tally, ARGV.stream, ARGV.from) or ''
  if ARGV.what == 'early' then next = tally_early(tally, ARGV.type, tonumber(ARGV.place)) end
  local result = { next }
  for _, key in ipairs(tally.keys) do
    local n = #result
    result[n + 1], result[n + 2], result[n + 3] = key, tally.count[key], tally.first[key]
  end
  return result
end

register('tally', tally_all)
