-- Lists, words, and what the server answers as name, value, name, value, ...

local CHUNK = 500 -- unpack() takes about 8,000 values; stay far below

-- One command for a list of any length.
local function bulk(command, key, list)
  local n = #list
  if n == 0 then return end
  if n <= CHUNK then return call(command, key, unpack(list)) end
  for i = 1, n, CHUNK do call(command, key, unpack(list, i, math.min(i + CHUNK - 1, n))) end
end

-- A small hash is a list that is searched from its start; one long value makes it a table before many fields follow.
local LONG = '-----------------------------------------------------------------'
local function bulk_set(key, pairs_)
  if #pairs_ > 64 then call('HSET', key, pairs_[1], LONG) end
  bulk('HSET', key, pairs_)
end

local function bulk_get(key, fields)
  if #fields <= CHUNK then return call('HMGET', key, unpack(fields)) end
  local values = {}
  for i = 1, #fields, CHUNK do
    local part = call('HMGET', key, unpack(fields, i, math.min(i + CHUNK - 1, #fields)))
    for j = 1, #part do values[i + j - 1] = part[j] end
  end
  return values
end

-- By name, what XINFO, HGETALL or an entry gives as a flat list.
local function by_name(flat)
  local fields = {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return fields
end

local function words(line)
  local list = {}
  for word in string.gmatch(line, '%S+') do list[#list + 1] = word end
  return list
end

local function contains(list, value)
  for i = 1, #list do
    if list[i] == value then return true end
  end
  return false
end
