-- A message that comes alone, as it mostly is: it leaves now, nothing has to be remembered of it, and its stream takes it as it
-- is. What a batch notes for each of its streams is said at once.

local NOBODY = {}

-- The agent types that a line of `topics` names: the same few lines are read again and again. Nobody changes such a list.
local types_in = remembering(words, 1000)

-- The agent type whose inbox a stream is, as a list.
local owners_of = remembering(function(suffix)
  local agent_type = string.match(suffix, '^inbox:(.*)$')
  return agent_type and { agent_type } or NOBODY
end, 1000)

-- The agent types that get what is added to a stream, as far as they are known already.
local function known_readers(suffix)
  local owners = owners_of(suffix)
  if owners == NOBODY then return types_in(call('HGET', P .. 'topics', string.sub(suffix, 7)) or '') end
  return call('HEXISTS', P .. 'types', owners[1]) == 1 and owners or NOBODY
end

-- Returns whether it was added; if not, nothing was done.
local function publish_alone()
  local form, suffix, kind = ARGV[MESSAGES_AT], ARGV[MESSAGES_AT + RUN_STREAM], ARGV[MESSAGES_AT + RUN_TYPE]
  if form == FULL_FORM then return false end
  local types, at, added = known_readers(suffix), MESSAGES_AT + RUN_WIDTH, nil
  -- guard: a topic that nobody takes is not for a message that comes alone
  if #types == 0 then return false end
  if form == PLAIN_FORM then
    added = append.at_once(suffix, ARGV[at], kind, ARGV[at + PLAIN_KEY], '', '', ARGV[at + PLAIN_BODY])
  else
    added = append.at_once(suffix, ARGV[at], kind, ARGV[at + HEADED_KEY],
      ARGV[at + HEADED_FROM], ARGV[at + HEADED_HEAD], ARGV[at + HEADED_BODY])
  end
  if not added then return false end
  for i = 1, #types do tell(types[i], { now_as_text(), suffix }, 1) end
  return true
end
