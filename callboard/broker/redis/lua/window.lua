-- What models are used for within a time that moves on, such as the last minute: a limit holds for every such time, wherever it
-- begins. A window is counted in slices, so that it costs the same however many requests are in it.
--
-- store:window:<ms>:<scope>  hash
--   `<slice>`      `<requests> <tokens> <usd>` of requests that began in it; slice n begins n slices after the beginning of time
--   `+<id>`        `<slice> <requests> <tokens> <usd>`: what is set aside for a request under way, and counted in its slice
--   `most <unit>`  the limit that was asked for last
--   `refused`      `<slice> <number>`: how many found no room in the newest slice
--
-- ARGV: 'enter', id of the request, the most that it may need: requests, tokens, usd (-1: not known, and no limit in money allows
--   it); then for each limit: scope, length of the window (ms), 'requests', 'tokens' or 'usd', and the most. All of them, or none.
-- Returns {}, or of the limit with the longest wait: {scope, length, unit, limit, used or set aside, ms until there is room or '',
--   ms more that those who were refused just before need, as requests here have needed so far}.
-- ARGV: 'leave', id of the request, what it used: requests, tokens, usd; then for each window: scope, length (ms)
-- Both are safe to repeat.
-- ARGV: 'look', scope, length (ms). Returns for each limit of the window: unit, limit, used or set aside, ms until there is room
--   for any request, 0: there is.

local SLICES, SHORTEST = 60, 1000 -- of a window; ms that a slice has at least
local SLACK = 1000 -- ms from the answer here until a request has reached its model, at most
local ASK_AGAIN = 1000 -- ms, where what others have set aside stands in the way, who may need less
local AMOUNTS = '(%S+) (%S+) (%S+)$'
local NEVER = 1 / 0

local function window_key(scope, length) return P .. 'store:window:' .. length .. ':' .. scope end

local function slice_length(length) return math.max(SHORTEST, math.ceil(length / SLICES)) end

-- When nothing of a slice is in the window any more, whenever in it a request began.
-- guard: a slice counts until the last request in it is out of the window
local function ends_of(slice, length) return (slice + 1) * slice_length(length) + length + SLACK end

local function exact(value) return string.format('%.17g', value) end

local function amounts_of(value)
  local requests, tokens, usd = string.match(value, AMOUNTS)
  return { requests = tonumber(requests) or 0, tokens = tonumber(tokens) or 0, usd = tonumber(usd) or 0 }
end

local function text_of(amounts)
  return exact(amounts.requests) .. ' ' .. exact(amounts.tokens) .. ' ' .. exact(amounts.usd)
end

local function add(sums, amounts, sign)
  for unit, amount in pairs(amounts) do sums[unit] = math.max(0, (sums[unit] or 0) + sign * amount) end
  return sums
end

-- A window as it is now: its slices, oldest first, and the sums of what is used and of what may be given back.
local function read_window(scope, length)
  local window = { scope = scope, length = length, key = window_key(scope, length), slices = {}, ids = {}, used = {}, held = {} }
  local flat = call('HGETALL', window.key)
  for i = 1, #flat, 2 do
    local field, value = flat[i], flat[i + 1]
    local slice = tonumber(string.match(field, '^%d+$') or string.match(field, '^%+') and string.match(value, '^%d+'))
    if slice and ends_of(slice, length) <= now() then
      call('HDEL', window.key, field)
    elseif slice and string.sub(field, 1, 1) == '+' then
      window.ids[string.sub(field, 2)] = true
      local amounts = amounts_of(value)
      amounts.requests = math.max(0, amounts.requests - 1) -- it is one request, whatever else it turns out not to need
      add(window.held, amounts, 1)
    elseif slice then
      local amounts = amounts_of(value)
      window.slices[#window.slices + 1] = { number = slice, amounts = amounts }
      add(window.used, amounts, 1)
    end
  end
  table.sort(window.slices, function(a, b) return a.number < b.number end)
  return window
end

-- How long (ms) until a window has room; 0: it has. It may be less when requests under way need less than is set aside.
local function wait_for(window, unit, amount, most)
  local used, held = window.used[unit] or 0, window.held[unit] or 0
  -- guard: what no window has room for is not waited for
  if amount < 0 or amount > most then return NEVER end
  -- guard: what a window has no room for does not begin
  if used + amount <= most then return 0 end
  local wait, left = 0, used
  for _, slice in ipairs(window.slices) do
    left, wait = left - slice.amounts[unit], ends_of(slice.number, window.length) - now()
    if left + amount <= most then break end
  end
  return math.max(1, used - held + amount <= most and math.min(wait, ASK_AGAIN) or wait)
end

-- A thousand that were refused together would ask again together, each of them, whenever there is room for ten.
local function wait_in_line(window, unit, most)
  local number = text(math.floor(now() / slice_length(window.length)))
  local slice, before = string.match(call('HGET', window.key, 'refused') or '', '^(%d+) (%d+)$')
  before = slice == number and tonumber(before) or 0
  call('HSET', window.key, 'refused', number .. ' ' .. text(before + 1))
  local usual = window.used[unit] / math.max(1, window.used.requests)
  return before * usual / most * window.length
end

local function count_in(window, id, wanted)
  local number = math.floor(now() / slice_length(window.length))
  local sums = add(amounts_of(call('HGET', window.key, text(number)) or ''), wanted, 1)
  call('HSET', window.key, text(number), text_of(sums), '+' .. id, text(number) .. ' ' .. text_of(wanted))
  for unit, most in pairs(window.most) do call('HSET', window.key, 'most ' .. unit, exact(most)) end
  call('PEXPIRE', window.key, text(ends_of(number, window.length) - now()))
end

local function wanted_amounts()
  return { requests = tonumber(ARGV.requests), tokens = tonumber(ARGV.tokens), usd = tonumber(ARGV.usd) }
end

local function refusal(window, unit, most, wait)
  local found = { window.scope, text(window.length), unit, exact(most), exact(window.used[unit] or 0), '', '0' }
  if wait < NEVER then found[6], found[7] = text(wait), text(wait_in_line(window, unit, most)) end
  return found
end

local function enter()
  local wanted, windows, by_key, longest, full = wanted_amounts(), {}, {}, 0, nil
  for i = LIMITS_AT, #ARGV, CEILING_WIDTH do
    local scope, length = ARGV[i], tonumber(ARGV[i + CEILING_LENGTH])
    local unit, most = ARGV[i + CEILING_UNIT], tonumber(ARGV[i + CEILING_MOST])
    local key = window_key(scope, length)
    local window = by_key[key] or read_window(scope, length)
    if not by_key[key] then by_key[key], windows[#windows + 1], window.most = window, window, {} end
    -- guard: a request that asks again, because an answer was lost, is in its windows once
    if window.ids[ARGV.id] then return {} end
    window.most[unit] = most
    local wait = wait_for(window, unit, wanted[unit], most)
    if wait > longest then longest, full = wait, { window = window, unit = unit, most = most } end
  end
  if full then return refusal(full.window, full.unit, full.most, longest) end
  wanted.usd = math.max(0, wanted.usd)
  for _, window in ipairs(windows) do count_in(window, ARGV.id, wanted) end
  return {}
end

local function leave()
  local used = wanted_amounts()
  for i = LIMITS_AT, #ARGV, WINDOW_WIDTH do
    local key = window_key(ARGV[i], tonumber(ARGV[i + WINDOW_LENGTH]))
    local held = call('HGET', key, '+' .. ARGV.id)
    local number = held and string.match(held, '^%d+')
    local counted = number and call('HGET', key, number)
    -- guard: what a request did not need is given back once
    if call('HDEL', key, '+' .. ARGV.id) == 1 and counted then
      call('HSET', key, number, text_of(add(add(amounts_of(counted), amounts_of(held), -1), used, 1)))
    end
  end
  return 1
end

-- What is the least that a request may need: what has no room for that has room for none.
local LEAST = { requests = 1, tokens = 1, usd = 1e-9 }

local function look()
  local window, answer = read_window(ARGV.scope, tonumber(ARGV.length)), {}
  for unit, least in pairs(LEAST) do
    local most = tonumber(call('HGET', window.key, 'most ' .. unit) or nil)
    if most then
      local n, wait = #answer, wait_for(window, unit, least, most)
      answer[n + 1], answer[n + 2], answer[n + 3] = unit, exact(most), exact(window.used[unit] or 0)
      answer[n + 4] = text(wait < NEVER and wait or 0)
    end
  end
  return answer
end

local KINDS = { enter = enter, leave = leave, look = look }

register('window', function() return KINDS[ARGV.action]() end)
