-- Which worker holds what, as the books of all workers say: read once in a call, when it is first asked for.
--
-- this.holders  `<type> <ref>` -> worker that holds it
-- this.runners  `<type> <key>` -> list of the workers that hold entries of it
-- this.held     `<type> <key>` -> list of the refs of these entries

local function is_living(worker)
  local deadline = call('ZSCORE', P .. 'workers', worker)
  return deadline ~= false and deadline ~= nil and tonumber(deadline) >= now()
end

-- Without a lease it is not living, and may commit until it is ended all the same: see turn.lua.
local function may_commit(worker) return worker ~= '' and call('EXISTS', P .. 'worker:' .. worker) == 1 end

local function read_holders()
  local holders, runners, held = {}, {}, {}
  for _, worker in ipairs(call('ZRANGE', P .. 'workers', 0, -1)) do
    local fields = call('HGETALL', P .. 'own:' .. worker)
    for i = 1, #fields, 2 do
      local agent_type, ref = string.match(fields[i], '^(%S+) (.*)$')
      local name = (agent_type or '') .. ' ' .. fields[i + 1]
      holders[fields[i]] = worker
      if not runners[name] then
        runners[name], held[name] = {}, {}
      end
      table.insert(held[name], ref or '')
      if not contains(runners[name], worker) then table.insert(runners[name], worker) end
    end
  end
  this.holders, this.runners, this.held = holders, runners, held
end

local function holder_of(agent_type, ref)
  if not this.holders then read_holders() end
  return this.holders[agent_type .. ' ' .. ref]
end

local function runners_of(agent_type, key)
  if not this.holders then read_holders() end
  return this.runners[agent_type .. ' ' .. key] or {}
end

local function held_of(agent_type, key)
  if not this.holders then read_holders() end
  return this.held[agent_type .. ' ' .. key] or {}
end

local function pending_with(agent_type, suffix, id)
  local found = redis.pcall('XPENDING', P .. suffix, agent_type, id, id, 1)
  if failure(found) or not found[1] then return nil, failure(found) end
  return found[1][2]
end
