-- Large bodies (claim checks): an entry holds a pointer to a blob, and the blob stays while some place needs it.
--
-- blob:<name>  hash  `body`: the bytes; every other field is a place that points to them: `topic:visits <id>`,
--                    `dead:counter <id>`, `timer:<name>`. A reply's has no places: it expires
-- blobs        zset  blob -> when to look again whether a place still needs it, server ms

local LOOK_AGAIN = 600000 -- ms between two looks at whether a blob is still needed
local POINTER, MOST = '{"claim":"', 400 -- how a pointer begins, and how many bytes it has at most

-- The blob that a body points to, such as `{"claim":"blob:8x2k1","bytes":104857600}`; nil when it is no pointer. Most
-- bodies are none, and are not parsed.
local function claim_of(body)
  if #body > MOST or string.sub(body, 1, #POINTER) ~= POINTER then return nil end
  local is_json, pointer = pcall(cjson.decode, body)
  if not is_json or type(pointer.claim) ~= 'string' or type(pointer.bytes) ~= 'number' then return nil end
  for name in pairs(pointer) do
    if name ~= 'claim' and name ~= 'bytes' then return nil end
  end
  return string.match(pointer.claim, '^blob:.+$')
end

-- If a body points to a blob, the blob stays as long as that place needs it; its bytes may have come with this call.
local function keep_claim(body, place)
  local name = claim_of(body)
  if not name then return end
  if this.claims and this.claims[name] then
    call('HSET', P .. name, 'body', this.claims[name], place, '')
    call('ZADD', P .. 'blobs', text(now() + LOOK_AGAIN), name)
  elseif call('EXISTS', P .. name) == 1 then
    call('HSET', P .. name, place, '')
  end
end

-- Whether some group of the stream has still to handle the entry; one that vanished is made again where it was.
local function is_unhandled(suffix, id)
  local types, groups = receivers(suffix), groups_of(suffix)
  if not groups then return true end
  local last_of = {}
  for _, group in ipairs(groups) do last_of[group.name] = group['last-delivered-id'] end
  for i = 1, #types do
    local last = last_of[types[i]]
    if not last or sortable(id) > sortable(last) then return true end
    if #call('XPENDING', P .. suffix, types[i], id, id, 1) > 0 then return true end
  end
  for _, agent_type in ipairs(leaving(suffix)) do
    -- guard: a type that left keeps the bytes of what it has in hand
    if not last_of[agent_type] or #call('XPENDING', P .. suffix, agent_type, id, id, 1) > 0 then return true end
  end
  return #types == 0
end

local function needs_claim(place)
  if string.sub(place, 1, 6) == 'timer:' then return call('EXISTS', P .. place) == 1 end
  local suffix, id = string.match(place, '^(.*) (%S+)$')
  if not suffix or #call('XRANGE', P .. suffix, id, id) == 0 then return false end
  return string.sub(suffix, 1, 5) == 'dead:' or is_unhandled(suffix, id)
end

-- Takes the blob away unless some place still needs it.
local function settle_claim(name)
  -- A large body stays while its place gets another name.
  if changing.now() then return call('ZADD', P .. 'blobs', text(now() + LOOK_AGAIN), name) end
  local left = 0
  for _, place in ipairs(call('HKEYS', P .. name)) do
    if place ~= 'body' then
      if needs_claim(place) then left = left + 1 else call('HDEL', P .. name, place) end
    end
  end
  if left > 0 then return call('ZADD', P .. 'blobs', text(now() + LOOK_AGAIN), name) end
  call('UNLINK', P .. name)
  call('ZREM', P .. 'blobs', name)
end

-- The bytes of a reply: the requester fetches them.
local function lend_claim(body, ms)
  local name = claim_of(body)
  if not name or not this.claims[name] then return end
  call('HSET', P .. name, 'body', this.claims[name])
  call('PEXPIRE', P .. name, text(ms))
end
