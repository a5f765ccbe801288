-- Looks at what a snapshot suspects to be broken, and mends what really is: every suspicion is checked again here, where
-- nothing else happens meanwhile, so that it does no harm while workers run.
--
-- A worker whose books do not agree with the namespace's is ended as if its lease were over. That is always safe: it
-- can't commit any more, what it held goes back in order without counting an attempt, and it joins again by itself.
--
-- ARGV: 'look' or 'mend', then for each suspicion four values: kind, a, b, c ('' where a kind takes fewer)
--   worker       worker                 a lease that ended, or a worker without a lease
--   group        type, suffix           the type reads the stream and has no group in it
--   topic        type, topic            the type has a group in a topic that does not know it
--   stray group  name, suffix           a group of no agent type that reads the stream
--   consumer     type, suffix, name     a consumer that is no worker
--   key          type, key              busy mark, parked entries and their number do not agree
--   parked       type, key              a wait list names entries that are gone, held, or named twice
--   order        type, key, pair        parked entries are not in order; pair: '<ref>|<ref that it belongs before, or ''>', or ''
--   pending      type, suffix, id       an entry that was given out and that no worker holds
--   early        type, member           an entry read ahead that is gone
--   ready        type, key              a key to be taken that is not free
--   tries        type, ref              attempts of an entry that is not pending
--   urgent       `<type> <key>`         a reset that is gone
--   timer        member                 a timer whose message is gone
--   expiry       suffix, ms             a key that should expire and does not
--   log          type, key, field       a log that the state does not name; with '' as the field: one of another length
--   question     id                     a question of a message that is handled, or one that is not listed as what it is
-- Returns {number of the suspicion from 0, 'there' | 'mended' | 'stays', what is wrong, or why it stays, ...}; what is in
--   order is left out.

-- A key of the wrong kind makes any command fail; the others are still looked at.
local function guarded(body, ...)
  local went_well, wrong, mend, why = pcall(body, ...)
  if went_well then return wrong, mend, why end
  return failure(wrong) or tostring(wrong), nil, 'delete the key that is of another kind'
end

local function mended(mend, kind, a, b)
  local went_well, wrong = pcall(mend)
  if not went_well then return 'stays', failure(wrong) or tostring(wrong) end
  event('repaired', kind, a, b)
  return 'mended'
end

local function repair()
  local mends, result = ARGV.mode == 'mend', {}
  -- What is half renamed is not mended.
  local refused = changing.refusal()
  if refused then return refused end
  for i = SUSPICIONS_AT, #ARGV, SUSPICION_WIDTH do
    local kind, a, b = ARGV[i], ARGV[i + SUSPICION_FIRST], ARGV[i + SUSPICION_SECOND]
    local wrong, mend, why = guarded(kinds[kind], a, b, ARGV[i + SUSPICION_THIRD])
    if wrong then
      local status = mend and 'there' or 'stays'
      if mends and mend then status, why = mended(mend, kind, a, b) end
      local n = #result
      result[n + 1], result[n + 2], result[n + 3] = (i - SUSPICIONS_AT) / SUSPICION_WIDTH, status, why and wrong .. ': ' .. why or wrong
    end
  end
  save_clock()
  return result
end

register('repair', repair)
