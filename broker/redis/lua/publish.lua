-- Adds a batch of messages to their streams (or to the timers), each once.
--
-- sent:<producer>     string  `<number of the producer's last batch> <its answer>`: a batch that is sent again after a lost
--                             answer adds nothing, and is answered the same
-- call:<id>           hash    a request that may be sent again: who waits for the reply (`to`), the reply once there is one
-- reply:<process>     stream  replies to one process
--
-- ARGV: producer, batch number, dedupe window (ms), max_unclaimed, count, then for each message ten values:
--   stream suffix, due (ms or 0), idempotency id or '', waiting process or '', id, type, key, from, head, body
--   and at the end two values for each body that points to its bytes: blob, bytes
-- Returns {server ms, topic that is full or '', index, status, index, status, ...} for messages that were not added:
--   'duplicate', 'undeliverable', or 'unwritable': the key holds something else, or its last possible id was used

local window, deliverable_to -- of one call
local FIRST, WIDTH = 6, 10

local function deliverable(suffix)
  if deliverable_to[suffix] == nil then
    local agent_type = string.match(suffix, '^inbox:(.*)$')
    deliverable_to[suffix] = not agent_type or call('HEXISTS', P .. 'types', agent_type) == 1
  end
  return deliverable_to[suffix]
end

local function publish_one(at)
  local suffix, due, idem, process = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  if not deliverable(suffix) then return 'undeliverable' end
  if idem ~= '' and seen(idem, window) then
    if process ~= '' then wait_again(ARGV[at + 4], process, window) end
    return 'duplicate'
  end
  if try_send(suffix, due, ARGV[at + 4], ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], ARGV[at + 8], ARGV[at + 9]) then
    if idem ~= '' then unsee(idem, window) end
    return 'unwritable'
  end
  if process ~= '' then begin_call(ARGV[at + 4], process, window) end
end

-- The answer of a batch that was carried out before; of one that a later batch has overtaken nobody waits for it.
local function answer_again(batch)
  local result = { text(now()), '' }
  local last, statuses = string.match(call('GET', P .. 'sent:' .. ARGV[1]) or '', '^(%d+) ?(.*)$')
  if not last or tonumber(batch) > tonumber(last) then return nil end
  if tonumber(batch) == tonumber(last) then
    for word in string.gmatch(statuses, '%S+') do result[#result + 1] = word end
  end
  return result
end

local function publish()
  local producer, batch, max_unclaimed, count = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
  window, deliverable_to = tonumber(ARGV[3]), {}
  local known = answer_again(batch)
  if known then return known end
  local result = { text(now()), '' }
  local after = FIRST + count * WIDTH
  if #ARGV >= after then
    claims = {}
    for i = after, #ARGV, 2 do claims[ARGV[i]] = ARGV[i + 1] end
  end
  for i = 0, count - 1 do
    local status = publish_one(FIRST + i * WIDTH)
    if status then
      result[#result + 1] = i
      result[#result + 1] = status
    end
  end
  result[2] = announce(max_unclaimed) or ''
  save_clock()
  call('SET', P .. 'sent:' .. producer, batch .. ' ' .. table.concat(result, ' ', 3), 'EX', 3600)
  return result
end

register('publish', publish, true)
