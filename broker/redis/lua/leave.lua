-- Ends workers: one that drained and goes, or the incarnations of a process that its supervisor saw die.
--
-- ARGV: crashed ('1': the messages that ran count an attempt), exact ('1': the names are whole, else they are prefixes), names...
-- Returns how many workers ended.

local function matches(worker, name, exact)
  if exact then return worker == name end
  return string.sub(worker, 1, #name) == name
end

local function leave()
  -- guard: leaving in peace counts no attempt
  local crashed = ARGV[1] == '1'
  local exact = ARGV[2] == '1'
  local ended = 0
  for _, worker in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    for i = 3, #ARGV do
      if matches(worker, ARGV[i], exact) then
        reap(worker, crashed)
        ended = ended + 1
        break
      end
    end
  end
  return ended
end

register('leave', leave)
