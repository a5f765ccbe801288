-- Which way of keeping things the namespace has. It is fixed when the namespace is first used; a version of Callboard that
-- keeps them in another way leaves everything as it is.
--
-- config  hash  `layout`: its number; none, although there is `shards`: 1, from before there were numbers

-- To be raised with every change after which older and newer processes can't share a namespace: another name, type or form
-- of a key, another meaning of a field.
local LAYOUT = '2'

-- The number of a namespace that has another layout, or nil.
local function other_layout()
  local found = call('HGET', P .. 'config', 'layout')
  if found == LAYOUT then return nil end
  return found or call('HGET', P .. 'config', 'shards') and '1' or nil
end
