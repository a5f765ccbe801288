-- How a function of the library is registered, and how each of its calls begins.

local function begin(keys, arguments)
  call, P, ARGV = redis.call, keys[1], arguments
  this = { subscribers = {}, touched = {} }
  reset_clock()
end

-- Only publishing is refused when the server's memory is full: whatever ends work has to go on, so that room is made.
local function register(name, body, refused_when_full)
  redis.register_function({
    function_name = LIBRARY .. '_' .. name,
    callback = function(keys, arguments)
      begin(keys, arguments)
      return body()
    end,
    flags = refused_when_full and {} or { 'allow-oom' },
  })
end
