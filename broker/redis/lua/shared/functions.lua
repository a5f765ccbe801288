-- How a function of the library is registered, and how each of its calls begins.

local function begin(keys, arguments, is_strict)
  call, P, ARGV = is_strict and redis.call or soft, keys[1], arguments
  this = { subscribers = {}, touched = {} }
  reset_clock()
end

-- What keeps work going must not stop at one key of the wrong type, see call.lua. What a person or a handler asks for ends
-- with an error that they see.
local GO_ON = { publish = true, turn = true, beat = true, join = true, leave = true, resync = true }

-- Only publishing is refused when the server's memory is full: whatever ends work has to go on, so that room is made.
local function register(name, body, refused_when_full)
  redis.register_function({
    function_name = LIBRARY .. '_' .. name,
    callback = function(keys, arguments)
      begin(keys, arguments, not GO_ON[name])
      return body()
    end,
    flags = refused_when_full and {} or { 'allow-oom' },
  })
end
