-- What models are used for within a time that moves on, such as the last minute: a limit holds for every such time, wherever it
-- begins. A window is counted in slices, so that it costs the same however many requests are in it.
--
-- store:window:<ms>:<scope>  hash
--   `<slice>`      `<requests> <tokens> <usd>` of requests that began in it, then the same of what those under way may give back,
--                  and how many are under way; slice n begins n slices after the beginning of time
--   `most <unit>`  the limit that was asked for last
--   `refused`      `<second> <number>`: how many found no room in the last second in which any did
-- store:entered:<ms>:<scope>  hash  request under way -> `<slice> <requests> <tokens> <usd>`: what is set aside for it in its slice
--
-- ARGV: 'enter', id of the request, the most that it may need: requests, tokens, usd (-1: not known, and no limit in money allows
--   it); then for each limit: scope, length of the window (ms), 'requests', 'tokens' or 'usd', and the most. All of them, or none.
-- Returns {}, or of the limit with the longest wait: {scope, length, unit, limit, used or set aside, ms until there is room or '',
--   ms more until those who were refused just before have had their room}.
-- ARGV: 'leave', id of the request, what it used: requests, tokens, usd; then for each window: scope, length (ms)
-- Both are safe to repeat.
-- ARGV: 'look', scope, length (ms). Returns for each limit of the window: unit, limit, used or set aside, ms until there is room
--   for any request, 0: there is.

local SLICES, SHORTEST = 60, 1000 -- of a window; ms that a slice has at least
local SLACK = 1000 -- ms from the answer here until a request has reached its model, at most
local ASK_AGAIN = 1000 -- ms, where what others have set aside stands in the way, who may need less
local NEVER = 1 / 0

local function window_key(scope, length) return P .. 'store:window:' .. length .. ':' .. scope end

local function entered_key(scope, length) return P .. 'store:entered:' .. length .. ':' .. scope end

local function slice_length(length) return math.max(SHORTEST, math.ceil(length / SLICES)) end

-- When nothing of a slice is in the window any more, whenever in it a request began.
-- guard: a slice counts until the last request in it is out of the window
local function ends_of(slice, length) return (slice + 1) * slice_length(length) + length + SLACK end

local function exact(value) return string.format('%.17g', value) end

-- The numbers of a slice, in their order.
local NUMBERS_OF = { 'requests', 'tokens', 'usd', 'spare requests', 'spare tokens', 'spare usd', 'under way' }

local function numbers_of(value)
  local numbers, i = {}, 0
  for word in string.gmatch(value or '', '%S+') do
    i = i + 1
    if i <= #NUMBERS_OF then numbers[NUMBERS_OF[i]] = tonumber(word) or 0 end
  end
  return numbers
end

local function text_of(numbers)
  local words = {}
  for i, name in ipairs(NUMBERS_OF) do words[i] = exact(numbers[name] or 0) end
  return table.concat(words, ' ')
end

local function add(sums, numbers, sign)
  for name, number in pairs(numbers) do sums[name] = math.max(0, (sums[name] or 0) + sign * number) end
  return sums
end

-- What a request under way adds to its slice. It is one request, whatever else it turns out not to need.
local function under_way(amounts)
  local spare = math.max(0, amounts.requests - 1)
  return { requests = amounts.requests, tokens = amounts.tokens, usd = amounts.usd, ['spare requests'] = spare,
    ['spare tokens'] = amounts.tokens, ['spare usd'] = amounts.usd, ['under way'] = 1 }
end

-- Requests that have ended without a word, or take longer than the window: their slices are gone.
local function forget_entered(window)
  local key = entered_key(window.scope, window.length)
  local flat = call('HGETALL', key)
  for i = 1, #flat, 2 do
    local slice = tonumber(string.match(flat[i + 1], '^%d+') or nil)
    if not slice or ends_of(slice, window.length) <= now() then call('HDEL', key, flat[i]) end
  end
end

-- A window as it is now: its slices, oldest first, and their sums.
local function read_window(scope, length)
  local window = { scope = scope, length = length, key = window_key(scope, length), slices = {}, used = {}, forgets = false }
  local flat = call('HGETALL', window.key)
  for i = 1, #flat, 2 do
    local slice = tonumber(string.match(flat[i], '^%d+$') or nil)
    local numbers = slice and numbers_of(flat[i + 1])
    if slice and ends_of(slice, length) <= now() then
      call('HDEL', window.key, flat[i])
      window.forgets = window.forgets or (numbers['under way'] or 0) > 0
    elseif slice then
      window.slices[#window.slices + 1] = { number = slice, amounts = numbers }
      add(window.used, numbers, 1)
    end
  end
  table.sort(window.slices, function(a, b) return a.number < b.number end)
  if window.forgets then forget_entered(window) end
  return window
end

-- How long (ms) until a window has room; 0: it has. It may be less when requests under way need less than is set aside.
local function wait_for(window, unit, amount, most)
  local used, held = window.used[unit] or 0, window.used['spare ' .. unit] or 0
  -- guard: what no window has room for is not waited for
  if amount < 0 or amount > most then return NEVER end
  -- guard: what a window has no room for does not begin
  if used + amount <= most then return 0 end
  local wait, left = 0, used
  for _, slice in ipairs(window.slices) do
    left, wait = left - (slice.amounts[unit] or 0), ends_of(slice.number, window.length) - now()
    if left + amount <= most then break end
  end
  return math.max(1, used - held + amount <= most and math.min(wait, ASK_AGAIN) or wait)
end

-- A thousand that were refused together would ask again together, each of them, whenever there is room for ten. So those come
-- first that were refused before in this second, and need what requests here have needed so far.
local function wait_in_line(window, unit, amount, most)
  local second = text(math.floor(now() / 1000))
  local last, before = string.match(call('HGET', window.key, 'refused') or '', '^(%d+) (%d+)$')
  before = last == second and tonumber(before) or 0
  call('HSET', window.key, 'refused', second .. ' ' .. text(before + 1))
  local needed = before * (window.used[unit] or 0) / math.max(1, window.used.requests or 0) + amount
  local full = math.ceil(needed / most) - 1 -- windows that those before fill
  local whole = full * (ends_of(0, window.length) + 1)
  return whole + wait_for(window, unit, needed - full * most, most)
end

local function count_in(window, id, wanted)
  local number = math.floor(now() / slice_length(window.length))
  local entered, lasts = entered_key(window.scope, window.length), text(ends_of(number, window.length) - now())
  local sums = add(numbers_of(call('HGET', window.key, text(number))), under_way(wanted), 1)
  call('HSET', window.key, text(number), text_of(sums))
  for unit, most in pairs(window.most) do call('HSET', window.key, 'most ' .. unit, exact(most)) end
  call('PEXPIRE', window.key, lasts)
  call('HSET', entered, id, text(number) .. ' ' .. text_of(wanted))
  call('PEXPIRE', entered, lasts)
end

local function wanted_amounts()
  return { requests = tonumber(ARGV.requests), tokens = tonumber(ARGV.tokens), usd = tonumber(ARGV.usd) }
end

local function refusal(window, unit, amount, most, wait)
  local found = { window.scope, text(window.length), unit, exact(most), exact(window.used[unit] or 0), '', '0' }
  if wait == NEVER then return found end
  found[6], found[7] = text(wait), text(math.max(0, wait_in_line(window, unit, amount, most) - wait))
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
    if call('HEXISTS', entered_key(scope, length), ARGV.id) == 1 then return {} end
    window.most[unit] = most
    local wait = wait_for(window, unit, wanted[unit], most)
    if wait > longest then longest, full = wait, { window = window, unit = unit, most = most } end
  end
  if full then return refusal(full.window, full.unit, wanted[full.unit], full.most, longest) end
  wanted.usd = math.max(0, wanted.usd)
  for _, window in ipairs(windows) do count_in(window, ARGV.id, wanted) end
  return {}
end

local function leave()
  for i = LIMITS_AT, #ARGV, WINDOW_WIDTH do
    local length = tonumber(ARGV[i + WINDOW_LENGTH])
    local key, entered = window_key(ARGV[i], length), entered_key(ARGV[i], length)
    local number, held = string.match(call('HGET', entered, ARGV.id) or '', '^(%d+) (.*)$')
    local counted = number and call('HGET', key, number)
    -- guard: what a request did not need is given back once
    if call('HDEL', entered, ARGV.id) == 1 and counted then
      local left = add(numbers_of(counted), under_way(numbers_of(held)), -1)
      call('HSET', key, number, text_of(add(left, wanted_amounts(), 1)))
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
