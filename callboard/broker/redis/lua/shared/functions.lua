-- How a function of the library is registered, and how each of its calls begins.

local function begin_call_of(keys, arguments, is_strict)
  call, P, ARGV = is_strict and redis.call or begin_soft(), keys[1], arguments
  -- With room for what comes later: to make a table larger takes as long as to make one.
  this = { subscribers = {}, touched = {}, unclaimed = {}, max_unclaimed = false, is_bare = false }
  reset_clock()
end

-- These name a worker, and do nothing unless it joined: which a worker of another layout can't. The rest looks by itself,
-- since a namespace may have been emptied and begun anew by another version while this process lived.
local JOINED = { turn = true, beat = true, resync = true }
-- What keeps work going must not stop at one key of the wrong type, see call.lua. What a person or a handler asks for ends
-- with an error that they see.
local GO_ON = { publish = true, write = true, turn = true, beat = true, join = true, leave = true, resync = true }

-- Only publishing is refused when the server's memory is full: whatever ends work has to go on, so that room is made.
local function register(name, body, refused_when_full)
  redis.register_function({
    function_name = LIBRARY .. '_' .. name,
    callback = function(keys, arguments)
      begin_call_of(keys, arguments, not GO_ON[name])
      -- guard: a namespace of another layout is left alone
      local other = not JOINED[name] and other_layout()
      if other then return redis.error_reply('LAYOUT ' .. other .. ' ' .. LAYOUT) end
      return body()
    end,
    flags = refused_when_full and {} or { 'allow-oom' },
  })
end
