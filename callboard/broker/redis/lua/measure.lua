-- How long streams are and how far each group is. Writes nothing.
--
-- ARGV: 'short' where it is to be a short call, see unread.lua, else ''; stream suffixes
-- Returns for each {suffix, length, last id given or '', groups}, groups: agent type, pending, last id delivered, unread,
--   id of the first unread or '', id of the first pending or '', ...
--   unread is -1 where it is not known, see unread.lua

local function first_unread(stream, info, position, unread)
  if unread == 0 then return '' end
  if sortable(info['first-entry'][1]) > sortable(position) then return info['first-entry'][1] end
  local first = call('XRANGE', stream, '(' .. position, '+', 'COUNT', 1)[1]
  return first and first[1] or ''
end

local function first_pending(stream, agent_type, pending)
  return pending > 0 and call('XPENDING', stream, agent_type)[2] or ''
end

local function add(groups, ...)
  for _, value in ipairs({ ... }) do groups[#groups + 1] = value end
end

-- A group that is gone will be made again where it was: see cursor:<type>.
local function add_missing(groups, suffix, info, present)
  for _, agent_type in ipairs(known_receivers(suffix)) do
    if not present[agent_type] then
      local position = call('HGET', P .. 'cursor:' .. agent_type, suffix) or '0-0'
      local unread = unread_of(suffix, { name = agent_type, ['last-delivered-id'] = position }) or -1
      add(groups, agent_type, 0, position, unread, first_unread(P .. suffix, info, position, unread), '')
    end
  end
end

local function measure(suffix)
  local stream, groups, present = P .. suffix, {}, {}
  if call('EXISTS', stream) == 0 then return { suffix, 0, '', groups } end
  local info, ended = by_name(call('XINFO', 'STREAM', stream)), leaving(suffix)
  for _, group in ipairs(groups_of(suffix)) do
    local position = group['last-delivered-id']
    local unread = unread_of(suffix, group) or -1
    if contains(ended, group.name) then unread = 0 end
    present[group.name] = true
    add(groups, group.name, group.pending, position, unread, first_unread(stream, info, position, unread),
      first_pending(stream, group.name, tonumber(group.pending)))
  end
  add_missing(groups, suffix, info, present)
  return { suffix, info.length, info['last-generated-id'], groups }
end

local function measure_all()
  local result = {}
  if ARGV[1] == 'short' then this.countable = SHORT end
  for i = 2, #ARGV do result[i - 1] = measure(ARGV[i]) end
  return result
end

register('measure', measure_all)
