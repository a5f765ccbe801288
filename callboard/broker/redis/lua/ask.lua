-- Asks a question of a handler, once however often the handler runs; else says what came of it.
--
-- input:<id>, inputs, once:<type>:<message>  see shared/inputs.lua
--
-- ARGV: worker and what it holds (see workers.lua), agent type, message id, name, id of the question, ms until it expires or '',
--   how long it is kept when it has ended (ms), number of values, then field, value, ... of what is asked; and what write_run()
--   reads, if something is written to a run when the question is asked by this
-- Returns {'OK', status, answer, when it expires (ms) or '', default, id}: the id under which it was asked; or {'FENCED'}.

-- Behind all that are open, in a millisecond in which several are asked as well.
local function next_place()
  local last = call('ZRANGE', P .. 'inputs', '-1', '-1', 'WITHSCORES')[2]
  -- Older versions had one list: until it was empty once, some of its questions are in no other.
  if not last then call('HSETNX', P .. 'config', 'questions listed', '1') end
  return string.format('%.3f', math.max(now(), last and tonumber(last) + 0.001 or 0))
end

local function ask()
  -- guard: a zombie asks nothing
  if is_fenced(ARGV.worker, ARGV.holds) then return { 'FENCED' } end
  local agent_type, message, name, id = ARGV.type, ARGV.message, ARGV.name, ARGV.id
  local behind = QUESTION_AT + tonumber(ARGV.count)
  local record, key = P .. 'once:' .. agent_type .. ':' .. message, P .. 'input:' .. id
  local before = call('HGET', record, '?' .. name)
  -- The id has the agent's type in it, and that may have had another name then.
  if before and before ~= id and call('EXISTS', P .. 'input:' .. before) == 1 then id, key = before, P .. 'input:' .. before end
  -- guard: a question is asked once
  if not before or call('EXISTS', key) == 0 then
    call('HSET', record, '?' .. name, id)
    call('DEL', key)
    local expires = ARGV.expires ~= '' and text(now() + tonumber(ARGV.expires)) or ''
    call('HSET', key, 'status', 'open', 'type', agent_type, 'message', message, 'name', name, 'asked', now_as_text(),
      'expires', expires, 'kept', ARGV.kept, unpack(ARGV, QUESTION_AT, behind - 1))
    call('PEXPIRE', key, FOR_LONG)
    -- guard: a question is found by its run and by the key of its agent
    in_lists('ZADD', id, next_place())
    if ARGV[behind] then write_run(behind) end
  end
  -- guard: what was recorded outlasts a wait
  call('PEXPIRE', record, FOR_LONG)
  local status = status_of(id)
  local known = call('HMGET', key, 'answer', 'expires', 'default')
  return { 'OK', status, known[1] or '', known[2] or '', known[3] or '', id }
end

register('ask', ask)
