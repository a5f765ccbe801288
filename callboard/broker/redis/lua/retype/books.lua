-- What a type has in hand, and what its agents keep: from the names of the old type to those of the new one.

-- A reference as it is when the streams of the type have their new names.
local function renamed_ref(old, new, ref)
  local kind, rest = string.match(ref, '^(%a+):' .. string.gsub(old, '%W', '%%%0') .. '( .*)$')
  if kind == 'inbox' or kind == 'urgent' then return kind .. ':' .. new .. rest end
  return ref
end

function retyping.move_tries(old, new, refs)
  local lines = bulk_get(P .. 'tries:' .. old, refs)
  for i = 1, #refs do
    if lines[i] then
      call('HSET', P .. 'tries:' .. new, renamed_ref(old, new, refs[i]), lines[i])
      call('HDEL', P .. 'tries:' .. old, refs[i])
    end
  end
end

-- What is parked behind agents. Returns how many of them are done.
function retyping.move_parked(old, new, at)
  local left = PORTION
  for i = at, #ARGV do
    local from, to = P .. 'wait:' .. old .. ':' .. ARGV[i], P .. 'wait:' .. new .. ':' .. ARGV[i]
    local refs = call('LRANGE', from, 0, left - 1)
    retyping.move_tries(old, new, refs)
    local moved = {}
    for j = 1, #refs do moved[j] = renamed_ref(old, new, refs[j]) end
    -- What is parked keeps its order.
    bulk('RPUSH', to, moved)
    call('LTRIM', from, #refs, -1)
    left = left - #refs - 1
    if call('EXISTS', from) == 1 or left <= 0 then return call('EXISTS', from) == 1 and i - at or i - at + 1 end
  end
  return #ARGV - at + 1
end

function retyping.move_early(old, new)
  local page = call('ZRANGE', P .. 'early:' .. old, 0, PORTION - 1)
  for i = 1, #page do
    local order, ref = string.match(page[i], '^([^|]*)|(.*)$')
    if order then
      retyping.move_tries(old, new, { ref })
      call('ZADD', P .. 'early:' .. new, '0', order .. '|' .. renamed_ref(old, new, ref))
    end
    call('ZREM', P .. 'early:' .. old, page[i])
  end
  return #page == PORTION and 1 or 0
end

function retyping.move_resets(old, new, at)
  for i = at, #ARGV do
    local ref = call('HGET', P .. 'urgent', old .. ' ' .. ARGV[i])
    if ref then
      if new then call('HSET', P .. 'urgent', new .. ' ' .. ARGV[i], renamed_ref(old, new, ref)) end
      call('HDEL', P .. 'urgent', old .. ' ' .. ARGV[i])
    end
  end
end

-- The questions of a record belong to the type whose record it is.
local function move_questions(record, new)
  for _, field in ipairs(call('HKEYS', record)) do
    if string.sub(field, 1, 1) == '?' then
      local input = P .. 'input:' .. call('HGET', record, field)
      -- A question goes with its type.
      if call('EXISTS', input) == 1 then call('HSET', input, 'type', new) end
    end
  end
end

-- States, logs and records of messages, whose names stand among the arguments.
function retyping.move_keys(old, new, at)
  for i = at, #ARGV do
    local kind = string.match(ARGV[i], '^%a+')
    local to = kind .. ':' .. new .. string.sub(ARGV[i], #kind + #old + 2)
    if call('EXISTS', P .. ARGV[i]) == 1 then
      -- Nothing of another agent is written over.
      if call('RENAMENX', P .. ARGV[i], P .. to) == 0 then
        return redis.error_reply(to .. ' is there already: delete it, or ' .. ARGV[i] .. ', and run it again')
      end
      if kind == 'once' then move_questions(P .. to, new) end
    end
  end
end

-- Timers: of agents that back off or wait for an answer, and messages for the inbox.
function retyping.change_timers(old, new, at)
  for i = at, #ARGV do
    local member = ARGV[i]
    local due, key = call('ZSCORE', P .. 'timers', member), nil
    if due and string.sub(member, 1, #old + 3) == 'k|' .. old .. '|' then key = string.sub(member, #old + 4) end
    if key then
      if new then call('ZADD', P .. 'timers', due, 'k|' .. new .. '|' .. key) end
      call('ZREM', P .. 'timers', member)
    end
    local name = due and string.match(member, '^m|(.*)$')
    if name and call('HGET', P .. 'timer:' .. name, 'stream') == 'inbox:' .. old then
      if new then
        call('HSET', P .. 'timer:' .. name, 'stream', 'inbox:' .. new)
      else
        call('ZREM', P .. 'timers', member)
        call('DEL', P .. 'timer:' .. name)
      end
    end
  end
end

-- Large bodies: places that need them.
function retyping.move_places(old, new, at)
  for i = at, #ARGV do
    for _, place in ipairs(call('HKEYS', P .. ARGV[i])) do
      local kind, rest = string.match(place, '^(%a+):' .. string.gsub(old, '%W', '%%%0') .. '([ :].*)$')
      if kind == 'inbox' or kind == 'dead' or kind == 'nested' then
        -- guard: a large body stays with its renamed place
        call('HSET', P .. ARGV[i], kind .. ':' .. new .. rest, '')
        call('HDEL', P .. ARGV[i], place)
      end
    end
  end
end
