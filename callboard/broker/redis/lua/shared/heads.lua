-- What the head of an entry says, see callboard/broker/envelope.py. Only who buries a message has to know: elsewhere a head
-- is bytes. It is msgpack, or JSON when a person wrote it. A reader of our own: not every server that we run on has cmsgpack.

local read_value

local function read_number(bytes, at, width)
  local number = 0
  for i = at, at + width - 1 do number = number * 256 + string.byte(bytes, i) end
  return number, at + width
end

-- So many values from this position on, as a list, and the position behind them.
local function read_values(bytes, at, count)
  local list = {}
  for i = 1, count do list[i], at = read_value(bytes, at) end
  return list, at
end

local function read_text(bytes, at, length)
  if at + length - 1 > #bytes then error('it ends too soon') end
  return string.sub(bytes, at, at + length - 1), at + length
end

local CONSTANTS = { [0xc0] = '', [0xc2] = false, [0xc3] = true }
-- Code -> bytes of the number itself, or of the length that follows it. Other numbers have no place in a head.
local UNSIGNED = { [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8 }
local TEXTS = { [0xd9] = 1, [0xda] = 2, [0xdb] = 4 }
local ARRAYS, MAPS = { [0xdc] = 2, [0xdd] = 4 }, { [0xde] = 2, [0xdf] = 4 }

-- The value at a position, and the position behind it. A map is a list of name, value, name, value.
function read_value(bytes, at)
  local code, width = string.byte(bytes, at), nil
  at = at + 1
  if code < 0x80 then return code, at end
  if code < 0x90 then return read_values(bytes, at, 2 * (code - 0x80)) end
  if code < 0xa0 then return read_values(bytes, at, code - 0x90) end
  if code < 0xc0 then return read_text(bytes, at, code - 0xa0) end
  if CONSTANTS[code] ~= nil then return CONSTANTS[code], at end
  if UNSIGNED[code] then return read_number(bytes, at, UNSIGNED[code]) end
  width = TEXTS[code] or ARRAYS[code] or MAPS[code] or error('a value that no head has')
  local length, behind = read_number(bytes, at, width)
  if TEXTS[code] then return read_text(bytes, behind, length) end
  return read_values(bytes, behind, MAPS[code] and 2 * length or length)
end

-- What a head says, by the short names of envelope.py; {} when it can't be read.
local function read_head(head)
  if head == '' then return {} end
  local is_json, went_well, fields = string.sub(head, 1, 1) == '{', nil, nil
  if is_json then went_well, fields = pcall(cjson.decode, head) else went_well, fields = pcall(read_value, head, 1) end
  if not went_well or type(fields) ~= 'table' then return {} end
  return is_json and fields or by_name(fields)
end
