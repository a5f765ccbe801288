-- Messages in versions that only some workers know.
--
-- accepts  hash  message -> highest version that some process ever said it knows
-- newer    hash  `<type> <key>` -> `<message> <version>` that its first entry waits for a worker to know

-- Message -> version, of `<message> <version> <message> <version> ...`.
local function versions_of(line)
  local versions = {}
  for name, version in string.gmatch(line, '(%S+) (%d+)') do versions[name] = tonumber(version) end
  return versions
end

-- Whether a worker that knows these versions can read what waits as `<message> <version>`.
local function knows(versions, line)
  local name, version = string.match(line, '^(%S+) (%d+)$')
  return (versions[name] or 0) >= tonumber(version)
end

-- What some process knows: a message in a version that no process ever knew is junk, another one waits for its worker.
local function remember_accepted(line)
  for name, version in pairs(versions_of(line)) do
    if tonumber(call('HGET', P .. 'accepts', name) or 0) < version then call('HSET', P .. 'accepts', name, version) end
  end
end
