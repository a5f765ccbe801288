-- Ends workers: one that drained and goes, or the incarnations of a process that its supervisor saw die.
--
-- ARGV: crashed ('1': they are known to be dead), exact ('1': the names are whole, else they are prefixes), names...
-- Returns how many workers ended.

local function matches(worker, name, exact)
  if exact then return worker == name end
  return string.sub(worker, 1, #name) == name
end

local function leave()
  local exact = ARGV.exact == '1'
  local ending = {}
  for _, worker in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    for i = NAMES_AT, #ARGV do
      if matches(worker, ARGV[i], exact) then
        ending[#ending + 1] = worker
        break
      end
    end
  end
  -- guard: leaving in peace counts no attempt
  if ARGV.crashed == '1' then
    reap_dead(ending, ending, true)
  else
    for i = 1, #ending do reap(ending[i]) end
  end
  return #ending
end

register('leave', leave)
