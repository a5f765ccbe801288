-- Messages in versions that only some workers know.
--
-- accepts       hash  message -> highest version that some process ever said it knows
-- newer:<type>  zset  `<message> <version>|<key>`, score 0: agents whose first entry waits for a worker that knows the message
--                     in this version. Only such a worker looks at them: to others they cost nothing, however many there are

local MOST_LINES = 50 -- messages and versions that are looked for at once

-- Message -> version, of `<message> <version> <message> <version> ...`.
local function versions_of(line)
  local versions = {}
  for name, version in string.gmatch(line, '(%S+) (%d+)') do versions[name] = tonumber(version) end
  return versions
end

-- Whether a worker that accepts these messages can read what waits as `<message> <version>`.
local function knows(accepts, line)
  local name, version = string.match(line, '^(%S+) (%d+)$')
  local _, after = string.find(' ' .. accepts .. ' ', ' ' .. name .. ' ', 1, true)
  return after ~= nil and tonumber(string.match(accepts, '^%d+', after) or 0) >= tonumber(version)
end

-- What some process knows: a message in a version that no process ever knew is junk, another one waits for its worker.
local function remember_accepted(line)
  for name, version in pairs(versions_of(line)) do
    if (tonumber(call('HGET', P .. 'accepts', name) or 0) or 0) < version then call('HSET', P .. 'accepts', name, version) end
  end
end

-- The different `<message> <version>` that agents of a type wait for.
local function lines_waited_for(agent_type)
  local queue, lines, from = P .. 'newer:' .. agent_type, {}, '-'
  for _ = 1, MOST_LINES do
    local member = call('ZRANGEBYLEX', queue, from, '+', 'LIMIT', 0, 1)[1]
    if not member then break end
    local line = string.match(member, '^(%S+ %d+)|')
    if line then
      lines[#lines + 1] = line
      from = '(' .. line .. '}' -- the character after `|`: behind all of its agents
    else
      call('ZREM', queue, member)
    end
  end
  return lines
end

-- Whether an agent waits for a worker that knows its first message.
local function waits_for_newer(agent_type, key)
  for _, line in ipairs(lines_waited_for(agent_type)) do
    if call('ZSCORE', P .. 'newer:' .. agent_type, line .. '|' .. key) then return true end
  end
  return false
end
