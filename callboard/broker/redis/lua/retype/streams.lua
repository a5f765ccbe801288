-- The groups of a type in its streams, and who subscribes: another type takes its place, or nobody.

local PORTION, DROPPED = 100, 100 -- entries in one call, of a type that stays and of one that goes

-- A line of types with one of them replaced, or taken out.
local function swapped(line, old, new)
  local list = {}
  for _, word in ipairs(words(line)) do
    if word == old then word = new end
    if word and not contains(list, word) then list[#list + 1] = word end
  end
  return table.concat(list, ' ')
end

local function swap_in(key, field, old, new)
  local line = call('HGET', key, field) or ''
  if not contains(words(line), old) then return false end
  line = swapped(line, old, new)
  if line == '' and key == P .. 'leaving' then call('HDEL', key, field) else call('HSET', key, field, line) end
  return true
end

-- Prefixes come before topics: a topic that appears from now on gets the new type.
function retyping.swap_prefixes(old, new)
  for _, prefix in ipairs(call('HKEYS', P .. 'prefixes')) do swap_in(P .. 'prefixes', prefix, old, new) end
end

-- The new type reads on where the old one was, and what is published from now on is announced to it.
function retyping.take_place(old, new, suffix, at)
  -- A renamed type goes on where it was.
  if not create_group(suffix, new, at) then call('XGROUP', 'SETID', P .. suffix, new, at) end
  call('HSET', P .. 'cursor:' .. new, suffix, at)
  local topic = string.match(suffix, '^topic:(.*)$')
  if topic then swap_in(P .. 'topics', topic, old, new) end
  swap_in(P .. 'leaving', suffix, old, new)
  if topic and not contains(words(call('HGET', P .. 'topics', topic) or ''), new) then
    call('SREM', P .. 'streams:' .. new, suffix)
  else
    mark_fresh(new, { '0', suffix }, 'CH')
  end
end

function retyping.position_of(agent_type, suffix)
  local group = group_of(agent_type, suffix)
  return group and group['last-delivered-id'] or call('HGET', P .. 'cursor:' .. agent_type, suffix) or '0'
end

local function pending_of(agent_type, suffix, most)
  local found, ids = redis.pcall('XPENDING', P .. suffix, agent_type, '-', '+', most), {}
  if failure(found) then return ids end
  for i = 1, #found do ids[i] = found[i][1] end
  return ids
end

local function end_place(old, suffix)
  redis.pcall('XGROUP', 'DESTROY', P .. suffix, old)
  call('SREM', P .. 'streams:' .. old, suffix)
  call('ZREM', P .. 'fresh:' .. old, suffix)
  call('HDEL', P .. 'cursor:' .. old, suffix)
  swap_in(P .. 'leaving', suffix, old, nil)
end

-- Returns 1 as long as something of the stream is left to do.
function retyping.move_stream(old, new, suffix)
  if string.sub(suffix, 1, 6) == 'topic:' then retyping.take_place(old, new, suffix, retyping.position_of(old, suffix)) end
  local ids = pending_of(old, suffix, PORTION)
  -- guard: what a renamed type has in hand is not trimmed
  claim_for_none(new, suffix, ids)
  if #ids > 0 then call('XACK', P .. suffix, old, unpack(ids)) end
  if #ids == PORTION then return 1 end
  end_place(old, suffix)
  return 0
end

local GONE = { reason = 'removed', error = 'its agent type was removed' }

-- What becomes of a message of a type that goes: a dead letter, or nothing; who waits for its reply hears of it in any case.
local function drop(old, suffix, id, flat, how)
  local values = entry_values(flat)
  if values and values[ID] == '' then values[ID] = name_of(suffix, id) end
  local letter = { reason = GONE.reason, error = GONE.error }
  if how == 'dead' then
    if values then bury(old, suffix, id, values, letter) else bury_junk(old, suffix, id, flat, 'the entry has no field `type`') end
  elseif values then
    leave_questions('once:' .. old .. ':' .. values[ID])
    answer_buried(old, values, letter)
  end
end

-- A portion of what a type was given, or of what it has not read, goes. Returns 1 as long as something is left.
function retyping.drop_stream(old, suffix, how)
  local topic = string.match(suffix, '^topic:(.*)$')
  -- A type that goes gets nothing new.
  if topic then swap_in(P .. 'topics', topic, old, nil) end
  local ids = pending_of(old, suffix, DROPPED)
  for i = 1, #ids do
    local flat = entry_of(suffix, ids[i])
    if flat then drop(old, suffix, ids[i], flat, how) end
    call('XACK', P .. suffix, old, ids[i])
  end
  if #ids > 0 then return 1 end
  local at = retyping.position_of(old, suffix)
  local is_to_read = group_of(old, suffix) and (how == 'dead' or not topic)
  local page = is_to_read and call('XRANGE', P .. suffix, '(' .. at, '+', 'COUNT', DROPPED) or {}
  for i = 1, #page do drop(old, suffix, page[i][1], page[i][2], how) end
  if #page > 0 then
    call('XGROUP', 'SETID', P .. suffix, old, page[#page][1])
    return 1
  end
  end_place(old, suffix)
  return 0
end
