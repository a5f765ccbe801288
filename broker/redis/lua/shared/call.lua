-- One call of a function: its arguments, and what belongs to it.
--
-- A library is loaded once, so nothing is defined anew in a call. `call`, P and ARGV are read in every line and are
-- therefore locals of the library, like the clock (clock.lua): a table costs 5 to 10 % of the server's time for a message
-- there. Everything else that belongs to one call stands in `this`, or in a table that the operation makes and passes on.
--
-- KEYS[1]  prefix `callboard:{<namespace>}:`; every key begins with it, so that all live in one hash slot. What each
--          key holds: docs/keys.md, made from broker/redis/catalogue.py

local call -- redis.call, which does not exist while a library is loaded
local P, ARGV -- prefix and arguments

-- subscribers  topic -> agent types, see topics.lua
-- touched      stream suffix -> number of entries that this call added
-- unclaimed    stream suffix -> true for a topic that no agent type takes, once something is added to it
-- max_unclaimed  how much of such a topic is kept, in a call that adds messages
-- claims       blob -> bytes that came with this call; {} where a body may point to bytes that are there; else nil
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

local function text(number) return string.format('%.0f', number) end

local function event(name, a, b, c)
  call('XADD', P .. 'events', 'MAXLEN', '~', 10000, '*', 'event', name, 'of', a or '', 'what', b or '', 'more', c or '')
end
