-- The beginning of a change, and what it may not meet.

local retyping = {} -- what more than one file of the operation uses

local OF_HAND = { 'busy', 'parked', 'ready', 'suspects', 'shelved', 'suspended', 'newer', 'early', 'tries' }
local OF_USE = { 'stats', 'dead', 'urgent' }

-- The worker that has an agent type, also one whose lease ended and that nobody has ended yet; else nil.
local function worker_with(agent_type)
  for _, worker in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    if contains(words(call('HGET', P .. 'worker:' .. worker, 'types') or ''), agent_type) then return worker end
  end
end

-- What a type has that was used already, or that something waits for; nil: it was declared at most.
local function used_key(agent_type)
  for _, kinds_ in ipairs({ OF_HAND, OF_USE }) do
    for i = 1, #kinds_ do
      local suffix = kinds_[i] .. ':' .. agent_type
      if call('EXISTS', P .. suffix) == 1 then return suffix end
    end
  end
  if call('XLEN', P .. 'inbox:' .. agent_type) > 0 then return 'inbox:' .. agent_type end
end

-- What beats have still to do with the streams of a type; nil: nothing.
local function chore_of(agent_type)
  for _, name in ipairs(call('HKEYS', P .. 'chores')) do
    local kind, its_type = string.match(name, '^(%S+) (%S+)')
    if its_type == agent_type and (kind == 'adopt' or kind == 'subscribe') then return name end
  end
end

-- Returns {status, what is in the way or how far it is}: an interrupted change goes on.
function retyping.start(kind, old, new)
  local going, its_type, its_new, phase = changing.now()
  if going then
    if going == kind and its_type == old and its_new == new then return { 'RESUMED', phase } end
    return changing.refusal()
  end
  -- A type that a worker has is not changed.
  local worker = worker_with(old) or kind == 'rename' and worker_with(new)
  if worker then return { 'WORKER', worker } end
  -- A name that was used is not given to another type.
  local used = kind == 'rename' and used_key(new)
  if used then return { 'USED', used } end
  local chore = chore_of(old) or chore_of(new)
  if chore then return { 'CHORE', chore } end
  if kind == 'rename' and call('HEXISTS', P .. 'types', old) == 0 then return { 'UNKNOWN', '' } end
  local phase_ = kind == 'rename' and 'before' or ARGV.names
  call('HSET', P .. 'config', 'changing', kind .. ' ' .. old .. ' ' .. new .. ' ' .. phase_)
  -- What a publisher declared of the new name: nothing is sent to its inbox until the old one's is there.
  -- A type that goes gets no direct messages.
  call('HDEL', P .. 'types', kind == 'rename' and new or old)
  event('type changes', old, kind, new)
  return { 'OK', phase_ }
end
