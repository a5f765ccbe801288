-- What the groups of a stream still need of its entries.

local function lowest(a, b)
  -- guard: trimming spares what the slowest group has not read
  return (not a or sortable(b) < sortable(a)) and b or a
end

local LAST = '18446744073709551615-18446744073709551615' -- the last id that there can be

-- The groups of a stream, as far as they need its entries: one of a type that left needs no more than what is pending. Nil
-- while a group is missing that has to be there: nobody knows what is pending in it until a reader makes it again.
local function needing_groups(suffix)
  local groups, ended = groups_of(suffix), leaving(suffix)
  local present = {}
  for _, group in ipairs(groups or {}) do
    present[group.name] = true
    -- guard: a type that left does not keep what it never reads
    if contains(ended, group.name) then group['last-delivered-id'] = LAST end
  end
  for _, types in ipairs({ known_receivers(suffix), ended }) do
    for _, agent_type in ipairs(types) do
      -- guard: nothing is trimmed while a group is missing
      if not present[agent_type] then return nil end
    end
  end
  return groups
end

-- The first id that some group still needs, or nil when that is not known, or no group reads the stream.
local function needed_from(groups, suffix)
  local bound = nil
  for _, group in ipairs(groups or {}) do
    bound = lowest(bound, group['last-delivered-id'])
    -- guard: trimming spares what is pending
    if tonumber(group.pending) > 0 then bound = lowest(bound, call('XPENDING', P .. suffix, group.name)[2]) end
  end
  return bound
end

-- How many handled entries there are at least that nobody needs.
local function spare(suffix, length, groups)
  local unread, pending = 0, 0
  for _, group in ipairs(groups) do
    if group['last-delivered-id'] ~= LAST and group.lag then unread = math.max(unread, unread_of(suffix, group)) end
    pending = pending + tonumber(group.pending)
  end
  return length - unread - pending
end
