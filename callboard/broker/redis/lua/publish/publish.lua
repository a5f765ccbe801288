-- Adds a batch of messages to their streams (or to the timers), each once.
--
-- sent:<producer>  see batches.lua
-- call:<id>, reply:<process>  see replies.lua
--
-- ARGV: producer, batch number, its limits (see new_limits), count, number of fences, or '' when there are neither fences nor
--   bodies that point to their bytes, then the messages, in runs of one form with the same stream and type: form, stream
--   suffix, type, count, then for each message the values of the form, and at the end its stream suffix where the run leaves it
--   empty, since it goes to several streams:
--   'p' (plain)  id, key, body
--   'h'          id, key, from, head, body
--   'f' (full)   id, key, from, head, body, due (see sending.lua), idempotency id or '', waiting process or ''
--   then for each fence, which a message has that leaves a handler before its commit, three values:
--   number of the message from 0, worker, what it has to hold (see workers.lua)
--   and at the end two values for each body that points to its bytes: blob, bytes
-- Returns {server ms, topic that is full or '', index, status, index, status, ...} for messages that were not added:
--   'duplicate', 'undeliverable', 'fenced', 'full': too much of its stream or agent is not handled yet, or 'unwritable': the key
--   holds something else, or its last possible id was used

-- Runs of messages. width: values of a message, by form.
local run = { width = { [PLAIN_FORM] = PLAIN_WIDTH, [HEADED_FORM] = HEADED_WIDTH, [FULL_FORM] = FULL_WIDTH } }

-- The form, the stream suffix, or '', and the number of the messages of the run that begins there; where its first message
-- begins, and how many values each of them has.
function run.read(at)
  local form, suffix = ARGV[at], ARGV[at + RUN_STREAM]
  return form, suffix, number_of(ARGV[at + RUN_COUNT]), at + RUN_WIDTH, run.width[form] + (suffix == '' and 1 or 0)
end

-- What belongs to one batch. deliverable: by stream suffix, whether its agent type is declared; room: messages that a
-- stream still takes; counted: whether they were counted exactly.
local function new_batch()
  local limits = limits_of(ARGV.limits)
  local is_limited = limits.is_limited
  return {
    window = limits.window, max_backlog = limits.max_backlog, max_per_key = limits.max_per_key,
    is_limited = is_limited, max_unclaimed = limits.max_unclaimed, deliverable = {}, room = is_limited and {}, counted = is_limited and {},
  }
end

-- Whether a message may go there; looked up once for each stream of a batch.
local function is_deliverable(batch, suffix)
  local agent_type = string.match(suffix, '^inbox:(.*)$')
  local is_known = not agent_type or call('HEXISTS', P .. 'types', agent_type) == 1
  batch.deliverable[suffix] = is_known
  return is_known
end

-- A message that leaves now, and of which nothing has to be remembered. Returns why it was not added, or nil.
local function publish_simple(batch, suffix, kind, id, key, from, head, body)
  if not batch.deliverable[suffix] and not is_deliverable(batch, suffix) then return 'undeliverable' end
  if batch.is_limited and is_full(batch, suffix, key) then return 'full' end
  return try_send_now(suffix, id, kind, key, from, head, body) and 'unwritable'
end

-- Any other message: its values are at this place of ARGV.
local function publish_full(batch, suffix, kind, at)
  local id, key, due = ARGV[at], ARGV[at + FULL_KEY], tonumber(ARGV[at + FULL_DUE])
  local idem, process = ARGV[at + FULL_IDEMPOTENT], ARGV[at + FULL_WAITING]
  if not batch.deliverable[suffix] and not is_deliverable(batch, suffix) then return 'undeliverable' end
  local is_known, was_seen = true, false
  if idem ~= '' then is_known, was_seen = pcall(seen, idem, batch.window) end
  -- guard: what may have been added is not added
  if not is_known then return 'unwritable' end
  if was_seen then
    if process ~= '' then wait_again(id, process, batch.window) end
    -- guard: a duplicate is not added
    return 'duplicate'
  end
  if batch.is_limited and due == 0 and is_full(batch, suffix, key) then
    if idem ~= '' then unsee(idem) end
    return 'full'
  end
  if try_send(suffix, due, id, kind, key, ARGV[at + FULL_FROM], ARGV[at + FULL_HEAD], ARGV[at + FULL_BODY]) then
    if idem ~= '' then unsee(idem) end
    return 'unwritable'
  end
  if process ~= '' then begin_call(id, process, batch.window) end
end

local function publish_one(batch, form, suffix, kind, at)
  if form == PLAIN_FORM then
    return publish_simple(batch, suffix, kind, ARGV[at], ARGV[at + PLAIN_KEY], '', '', ARGV[at + PLAIN_BODY])
  end
  if form == HEADED_FORM then
    return publish_simple(batch, suffix, kind, ARGV[at], ARGV[at + HEADED_KEY],
      ARGV[at + HEADED_FROM], ARGV[at + HEADED_HEAD], ARGV[at + HEADED_BODY])
  end
  return publish_full(batch, suffix, kind, at)
end

-- Those at the beginning of a run whose stream is known to take messages, and about which nothing else has to be asked: so are nearly
-- all but the first of a run. Returns how many were added.
function run.publish(suffix, form, kind, at, count)
  local touched = this.touched
  if not touched[suffix] or this.unclaimed[suffix] then return 0 end
  local added = append.all_at_once(suffix, kind, at, count, form == HEADED_FORM)
  touched[suffix] = touched[suffix] + added
  return added
end

-- The same for a run over several streams.
function run.publish_apart(form, kind, at, count)
  local touched, is_headed = this.touched, form == HEADED_FORM
  for i = 0, count - 1 do
    local suffix, added = ARGV[at + (is_headed and HEADED_WIDTH or PLAIN_WIDTH)], nil
    local before = touched[suffix]
    if before and is_headed then
      added = append.at_once(suffix, ARGV[at], kind, ARGV[at + HEADED_KEY],
        ARGV[at + HEADED_FROM], ARGV[at + HEADED_HEAD], ARGV[at + HEADED_BODY])
      at = at + (HEADED_WIDTH + 1)
    elseif before then
      added = append.at_once(suffix, ARGV[at], kind, ARGV[at + PLAIN_KEY], '', '', ARGV[at + PLAIN_BODY])
      at = at + (PLAIN_WIDTH + 1)
    end
    if not added then return i end
    touched[suffix] = before + 1
  end
  return count
end

-- The messages of a batch, in order; what was not added is noted in the result.
local function publish_all(batch, count, fenced, result)
  local number, at, is_simple = 0, MESSAGES_AT, not (fenced or this.claims or batch.is_limited)
  while number < count do
    local kind, form, suffix, n, first, width = ARGV[at + RUN_TYPE], run.read(at)
    local behind, is_plain = number + n, is_simple and form ~= FULL_FORM
    at = first
    while number < behind do
      local added = 0
      if is_plain and suffix == '' then
        added = run.publish_apart(form, kind, at, behind - number)
      elseif is_plain then
        added = run.publish(suffix, form, kind, at, behind - number)
      end
      number, at = number + added, at + added * width
      if number == behind then break end
      local stream = suffix == '' and ARGV[at + width - 1] or suffix
      local status = fenced and fenced[number] and 'fenced' or publish_one(batch, form, stream, kind, at)
      if status then
        result[#result + 1] = number
        result[#result + 1] = status
      end
      number, at = number + 1, at + width
    end
  end
end

-- Notes the topic of a stream that is of one, once.
function run.note_topic(found, suffix)
  if found.known[suffix] then return end
  found.known[suffix] = true
  if string.sub(suffix, 1, 6) ~= 'topic:' then return end
  local n = #found.topics + 1
  found.topics[n], found.suffixes[n] = string.sub(suffix, 7), suffix
end

-- The topics among the streams of a batch, and their streams.
local function topics_of(count)
  local number, at, found = 0, MESSAGES_AT, { known = {}, topics = {}, suffixes = {} }
  while number < count do
    local _, suffix, n, first, width = run.read(at)
    number, at = number + n, first + n * width
    if suffix ~= '' then run.note_topic(found, suffix) end
    for last = first + width - 1, suffix == '' and at - 1 or 0, width do run.note_topic(found, ARGV[last]) end
  end
  return found.topics, found.suffixes
end

-- Looks up at once who subscribes to the topics of a batch: one by one that is a fifth of its cost where it has many. What has
-- subscribers is touched: nothing else has to be asked before something is added to it.
local function look_up_topics(count)
  local topics, suffixes = topics_of(count)
  if #topics < 2 then return end
  local lines, of, touched = bulk_get(P .. 'topics', topics), this.subscribers, this.touched
  for i = 1, #topics do
    local types = types_in(lines[i] or '')
    -- guard: a topic that nobody takes is asked for when something is added to it
    if #types > 0 then of[suffixes[i]], touched[suffixes[i]] = types, 0 end
  end
end

local function behind_messages(count)
  local number, at = 0, MESSAGES_AT
  while number < count do
    local _, _, n, first, width = run.read(at)
    number, at = number + n, first + n * width
  end
  return at
end

-- By the number of the message: whether it comes from a handler whose worker lost the message that it handles.
local function read_fences(at, count)
  local fenced = {}
  for i = at, at + FENCE_WIDTH * count - 1, FENCE_WIDTH do
    fenced[tonumber(ARGV[i])] = is_fenced(ARGV[i + FENCE_WORKER], ARGV[i + FENCE_HOLDS])
  end
  return fenced
end

-- The bytes of large bodies, which come last.
local function read_claims(at)
  if #ARGV < at then return end
  this.claims = {}
  for i = at, #ARGV, CLAIM_WIDTH do this.claims[ARGV[i]] = ARGV[i + CLAIM_BYTES] end
end

local function publish()
  local producer, number, count, fences = ARGV.producer, ARGV.batch, number_of(ARGV.count), ARGV.fences
  -- The connection broke before the answer came: the batch was added, and comes a second time.
  local known = answer_again(producer, number)
  -- guard: a batch is added once
  if known then return { now_as_text(), '', unpack(known) } end
  if count == 1 and fences == '' and not limits_of(ARGV.limits).is_limited and publish_alone() then
    save_clock()
    keep_answer(producer, number, '')
    return { now_as_text(), '' }
  end
  local batch, result, fenced = new_batch(), { now_as_text(), '' }, nil
  this.max_unclaimed = batch.max_unclaimed
  if fences ~= '' then
    local behind = behind_messages(count)
    fenced = read_fences(behind, tonumber(fences))
    read_claims(behind + FENCE_WIDTH * tonumber(fences))
  end
  if count > 1 then look_up_topics(count) end
  publish_all(batch, count, fenced, result)
  result[2] = announce(this.max_unclaimed) or ''
  save_clock()
  keep_answer(producer, number, #result > 2 and table.concat(result, ' ', 3) or '')
  return result
end

register('publish', publish, true)
