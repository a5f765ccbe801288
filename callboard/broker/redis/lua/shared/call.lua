-- One call of a function: its arguments, and what belongs to it.
--
-- A library is loaded once, so nothing is defined anew in a call. `call`, P and ARGV are read in every line and are
-- therefore locals of the library, like the clock (clock.lua): a table costs 5 to 10 % of the server's time for a message
-- there. Everything else that belongs to one call stands in `this`, or in a table that the operation makes and passes on.
--
-- KEYS[1]  prefix `callboard:{<namespace>}:`; every key begins with it, so that all live in one hash slot. What each
--          key holds: docs/keys.md, made from callboard/broker/redis/catalogue.py

local call -- soft, see below; or redis.call, in a function that ends with an error when a key is of the wrong type
local P, ARGV -- prefix and arguments

-- subscribers  stream suffix of a topic -> agent types, see topics.lua
-- touched      stream suffix -> number of entries that this call added
-- has_timers   true once this call has added a timer
-- is_bare      in a turn: nobody is busy, the worker holds nothing, and there is nothing but new entries, see turn/alone.lua
-- was_read     in a turn: what was read already, and is to be given
-- unclaimed    stream suffix -> true for a topic that no agent type takes, until something is added to it that cuts it
-- max_unclaimed  how much of such a topic is kept, as text, in a call that adds messages
-- claims       blob -> bytes that came with this call; {} where a body may point to bytes that are there; else nil
-- countable    in a short look: how many more entries it may count; else nil, see unread.lua
-- unusable     suffix -> the server's error, of the keys of the wrong type that this call came across; nil when there was none
local this

-- Gives one argument after the other, from this position on.
local function reader(at)
  return function()
    at = at + 1
    return ARGV[at - 1]
  end
end

-- The text of the error that pcall() returned, or nil. (fakeredis gives an object where servers give a string.)
local function failure(result) return type(result) == 'table' and result.err and tostring(result.err) or nil end

-- The number that a text says, of those that are sent again and again: to read one takes as long as two small commands.
local MOST_NUMBERS = 1000
local NUMBERS, numbers_n = {}, 0
local function number_of(digits_)
  local known = NUMBERS[digits_]
  if known or not digits_ then return known end
  known = tonumber(digits_)
  if known and numbers_n < MOST_NUMBERS and #digits_ < 10 then NUMBERS[digits_], numbers_n = known, numbers_n + 1 end
  return known
end

-- The same for what else is read from a text: a function of it, which keeps so many values, and then begins anew. What comes of
-- a long text is not kept.
local function remembering(read, most)
  local known, n, longest = {}, 0, 1000
  return function(line)
    local value = known[line]
    if not value then
      if #line > longest then return read(line) end
      if n >= most then known, n = {}, 0 end
      value, n = read(line), n + 1
      known[line] = value
    end
    return value
  end
end

local function text(number) return string.format('%.0f', number) end

-- The same for numbers that are mostly small: to write one as text takes as long as a command, in an argument of a command
-- as well. Where it counts, a number that is always the same stands there as text.
local SMALL, DIGITS = 1000, {}
local function digits(number)
  local known = DIGITS[number]
  if not known then
    known = text(number)
    if number >= 0 and number < SMALL then DIGITS[number] = known end
  end
  return known
end

local function event(name, a, b, c)
  call('XADD', P .. 'events', 'MAXLEN', '~', 10000, '*', 'event', name, 'of', a or '', 'what', b or '', 'more', c or '')
end

-- Keys of the wrong type: somebody wrote to them by hand. What a function wrote before it came across one would stay, and
-- what it was about to write would be lost; so it goes on, and only what needs that key is given up.

local TELL_AGAIN, MOST_TOLD = 10000, 1000 -- ms between two events about one key; keys that are remembered for it
local told, told_n = {}, 0 -- key -> when it was told of, server ms; stays from call to call

-- What servers say of a key, or of a value in it, that a command can't use.
-- guard: a value that a command can't use is like a key of another kind
local UNFIT = { 'WRONGTYPE', 'not an integer', 'not a valid float', 'not a float', 'would overflow', 'invalid expire time',
  'Invalid stream ID', 'invalid cursor' }

local function is_wrong_type(wrong)
  for i = 1, #UNFIT do
    if string.find(wrong, UNFIT[i], 1, true) then return true end
  end
  return false
end

local function is_told(key)
  local time = redis.call('TIME') -- not now(): this file comes before the clock
  local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  if told[key] and ms - told[key] < TELL_AGAIN then return true end
  if told_n >= MOST_TOLD then told, told_n = {}, 0 end
  told[key], told_n = ms, told_n + 1
  return false
end

local function note_unusable(key, wrong)
  local suffix = string.sub(key, #P + 1)
  this.unusable = this.unusable or {}
  if this.unusable[suffix] then return end
  this.unusable[suffix] = wrong
  if is_told(key) then return end
  redis.pcall('XADD', P .. 'events', 'MAXLEN', '~', 10000, '*', 'event', 'wrong type', 'of', suffix, 'what', wrong, 'more', '')
end

-- Whether this call came across a key that it could not use.
local function is_unusable(suffix) return this.unusable ~= nil and this.unusable[suffix] ~= nil end

-- What such a key gives instead: no values, nothing, or else 0.
local LISTS = { HGETALL = true, SPOP = true, HKEYS = true, HVALS = true, HMGET = true, SMEMBERS = true, LRANGE = true, ZRANGE = true,
  ZRANGEBYSCORE = true, ZRANGEBYLEX = true, XRANGE = true, XREVRANGE = true, XPENDING = true }
local VALUES = { GET = true, HGET = true, LINDEX = true, LPOP = true, LPOS = true, ZSCORE = true, XADD = true }

-- What stands for the answer of a command that failed. Any error but a wrong type ends the call: the command is given again,
-- so that the server itself says why.
local function instead(wrong, command, key, ...)
  if not is_wrong_type(wrong) then return redis.call(command, key, ...) end
  note_unusable(key, wrong)
  if LISTS[command] then return {} end
  if command == 'HSCAN' or command == 'SSCAN' then return { '0', {} } end
  if VALUES[command] then return nil end
  return 0
end

-- Most lines of most calls come by here, and to find these two anew each time would take as long as the rest.
local unsafe, type_of = nil, nil

-- A command; a key of the wrong type is like one that is not there, and told of.
local function soft(command, key, ...)
  local result = unsafe(command, key, ...)
  if not result or result == 1 or result == 0 then return result end -- many are, and this takes less than to ask for a type
  if type_of(result) ~= 'table' or not result.err then return result end
  return instead(failure(result), command, key, ...)
end

local function begin_soft()
  unsafe, type_of = redis.pcall, type
  return soft
end

-- A command without which what is being done must not go on: a key of the wrong type is an error that names it.
local function must(command, key, ...)
  local result = redis.pcall(command, key, ...)
  local wrong = failure(result)
  if not wrong then return result end
  if not is_wrong_type(wrong) then return redis.call(command, key, ...) end
  note_unusable(key, wrong)
  return error(string.sub(key, #P + 1) .. ': ' .. wrong, 0)
end
