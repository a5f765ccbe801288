-- Batches of what a process sends: one that comes again, because its answer was lost, changes nothing and is answered the same.
--
-- sent:<producer>  string  `<number of the producer's last batch> <its answer>`

-- The words of the answer, of a batch that was carried out before; else nil. For one that a later batch has overtaken nobody
-- waits: who does, finds what somebody has written there by hand, and must not take it for its own.
local function answer_again(producer, number)
  local last, answer = string.match(call('GET', P .. 'sent:' .. producer) or '', '^(%d+) ?(.*)$')
  if not last or number - last > 0 then return nil end
  -- guard: a number that no batch had says nothing of the batches before it
  if number - last < 0 then error('OVERTAKEN', 0) end
  return words(answer)
end

local function keep_answer(producer, number, answer)
  call('SET', P .. 'sent:' .. producer, number .. ' ' .. answer, 'EX', '3600')
end
