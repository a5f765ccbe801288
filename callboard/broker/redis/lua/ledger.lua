-- What models were used for, by scope: all, a client, an agent, a run. An amount is set aside before a request, and what was
-- used takes its place afterwards. Both are safe to repeat.
--
-- store:usage:<scope>  hash  requests, prompt_tokens, completion_tokens, usd, unpriced; limit_tokens, limit_usd; of a run also
--   `<agent> <model> <any of the first five>`
-- store:held:<scope>   hash  id of a hold -> `<ends, ms> <tokens> <usd>`
--
-- ARGV: 'hold', id of the hold, tokens, usd (-1: not known, and no limit in money allows it), how long it counts (ms), number of scopes, the scopes; then for each limit: scope,
--   'tokens' or 'usd', and the most. The limits that a scope carries itself count as well. All scopes hold it, or none.
-- Returns {}, or {scope, unit, limit, used and held by others} of the first limit that is too small.
-- ARGV: 'begin', id of the hold, how long it counts (ms), the scopes
-- Sets nothing aside: returns 1, and nothing happens and it returns 0, when one of the scopes carries a limit.
-- ARGV: 'settle', id of the hold, how long the sums are kept (ms), `<agent> <model>` to count for in the scopes of runs or '',
--   number of scopes, the scopes; then for each amount: field, number
-- Returns in how many scopes it was counted.

local FORGOTTEN = 86400000 -- ms behind its end after which the hold of a process that died is removed

local function usage_key(scope) return P .. 'store:usage:' .. scope end

local function held_key(scope) return P .. 'store:held:' .. scope end

-- The message and the worker of a hold `<message>@<worker>/<number>`; nothing of one that was made outside a handler.
local function parts_of(id) return string.match(id, '^(%x+)@(%x+)/') end

-- Whether another hold is of the same message as mine, and of a worker that has lost it since: it died, most likely.
local function is_replaced(other, mine)
  local message, worker = parts_of(mine)
  local its_message, its_worker = parts_of(other)
  return message ~= nil and its_message == message and its_worker ~= worker
end

-- What is held in a scope, except by one hold. What it replaces is given back, for whoever asks next; the hold itself stays, as
-- one that has ended does for a while, so that a request that took long is counted when it ends.
local function held_besides(scope, id)
  local amounts, key = { tokens = 0, usd = 0 }, held_key(scope)
  local flat = call('HGETALL', key)
  for i = 1, #flat, 2 do
    local other, ends, tokens, usd = flat[i], string.match(flat[i + 1], '^(%S+) (%S+) (%S+)$')
    local is_over = tonumber(ends or 0) <= now()
    if tonumber(ends or 0) + FORGOTTEN < now() then
      call('HDEL', key, other)
    -- guard: what a worker held that died does not stand in the way of its message
    elseif is_replaced(other, id) then
      -- guard: nor in the way of what comes after its message
      if not is_over then call('HSET', key, other, ends .. ' 0 0') end
    elseif other ~= id and not is_over then
      amounts.tokens, amounts.usd = amounts.tokens + tonumber(tokens), amounts.usd + tonumber(usd)
    end
  end
  return amounts
end

local function number(value) return tonumber(value or 0) or 0 end

local function exact(value) return string.format('%.17g', value) end

local function amounts_of(scope, id)
  local fields = call('HMGET', usage_key(scope), 'prompt_tokens', 'completion_tokens', 'usd', 'limit_tokens', 'limit_usd')
  local held = held_besides(scope, id)
  return {
    tokens = number(fields[1]) + number(fields[2]) + held.tokens,
    usd = number(fields[3]) + held.usd,
    own = { tokens = tonumber(fields[4] or nil), usd = tonumber(fields[5] or nil) },
  }
end

local function add_own_limits(limits, scope, own)
  for _, unit in ipairs({ 'tokens', 'usd' }) do
    if own[unit] then limits[#limits + 1] = { scope, unit, own[unit] } end
  end
end

local function read_arguments()
  local next_one = reader(ID_AT)
  local id, wanted, lasts = next_one(), { tokens = next_one(), usd = next_one() }, next_one()
  local scopes, limits = {}, {}
  for i = 1, tonumber(next_one()) do scopes[i] = next_one() end
  for i = 1, (#ARGV - COUNT_AT - #scopes) / 3 do limits[i] = { next_one(), next_one(), tonumber(next_one()) } end
  return id, wanted, lasts, scopes, limits
end

local function set_aside(scopes, id, tokens, usd, lasts)
  local value = text(now() + tonumber(lasts)) .. ' ' .. tokens .. ' ' .. usd
  for _, scope in ipairs(scopes) do
    call('HSET', held_key(scope), id, value)
    call('PEXPIRE', held_key(scope), text(tonumber(lasts) + FORGOTTEN))
  end
end

local function begin()
  local id, lasts, scopes = ARGV.id, ARGV.lasts, {}
  for i = ALL_SCOPES_AT, #ARGV do
    local limits = call('HMGET', usage_key(ARGV[i]), 'limit_tokens', 'limit_usd')
    -- guard: where there is a limit, nothing is used that was not set aside
    if limits[1] or limits[2] then return 0 end
    scopes[#scopes + 1] = ARGV[i]
  end
  set_aside(scopes, id, '0', '0', lasts)
  return 1
end

local function hold()
  local id, wanted, lasts, scopes, limits = read_arguments()
  local amount, amounts = { tokens = tonumber(wanted.tokens), usd = tonumber(wanted.usd) }, {}
  for _, scope in ipairs(scopes) do
    amounts[scope] = amounts_of(scope, id)
    add_own_limits(limits, scope, amounts[scope].own)
  end
  for _, limit in ipairs(limits) do
    local scope, unit, most = limit[1], limit[2], limit[3]
    local used = amounts[scope][unit]
    -- guard: a request that a budget might not cover is not made
    if used + amount[unit] > most or amount[unit] < 0 then return { scope, unit, exact(most), exact(used) } end
  end
  set_aside(scopes, id, wanted.tokens, exact(math.max(0, amount.usd)), lasts)
  return {}
end

local function count(scope, at, lasts, part)
  local key, is_run = usage_key(scope), string.sub(scope, 1, 4) == 'run:'
  for i = at, #ARGV, AMOUNT_WIDTH do
    local field, amount = ARGV[i], ARGV[i + AMOUNT_NUMBER]
    call('HINCRBYFLOAT', key, field, amount)
    if is_run and part ~= '' then call('HINCRBYFLOAT', key, part .. ' ' .. field, amount) end
  end
  call('PEXPIRE', key, lasts)
end

local function settle()
  local id, lasts, part, scopes, counted = ARGV.id, ARGV.lasts, ARGV.part, tonumber(ARGV.number), 0
  for i = SCOPES_AT, NUMBER_AT + scopes do
    -- guard: what a request used is counted once
    if call('HDEL', held_key(ARGV[i]), id) == 1 then
      count(ARGV[i], SCOPES_AT + scopes, lasts, part)
      counted = counted + 1
    end
  end
  return counted
end

local KINDS = { hold = hold, begin = begin, settle = settle }

local function ledger() return KINDS[ARGV.action]() end

register('ledger', ledger)
