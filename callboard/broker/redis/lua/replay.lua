-- Sends dead letters again, to the agent type that failed only, or discards them. A letter goes once however often this runs.
--
-- dead:<type>  stream  see deadletters.lua
--
-- ARGV: type, action ('replay' or 'discard'), then for each letter: id, head to send it with
-- Returns {id, 'done' | 'gone' | 'not replayable', id, ...}.

local function again(agent_type, letter, head)
  if letter.type == '' or letter.entry == nil then return false end
  if string.sub(letter.reason, 1, 12) == 'the payload ' or string.sub(letter.reason, 1, 10) == 'the entry ' then return false end
  send('inbox:' .. agent_type, 0, letter.id, letter.type, letter.key, letter.from, head, letter.body)
  return true
end

-- The bytes that a letter points to go with it, unless it was sent again or another place needs them.
local function let_go(letter)
  local name = claim_of(letter.body or '')
  if name then settle_claim(name) end
end

local function replay()
  local agent_type, action = ARGV.type, ARGV.action
  local letters = P .. 'dead:' .. agent_type
  local result = {}
  this.claims = {}
  for i = LETTERS_AT, #ARGV, LETTER_WIDTH do
    local found = call('XRANGE', letters, ARGV[i], ARGV[i])
    local status = 'gone'
    if found[1] then
      local letter = by_name(found[1][2])
      status = 'done'
      if action == 'replay' and not again(agent_type, letter, ARGV[i + LETTER_HEAD]) then status = 'not replayable' end
      if status == 'done' then
        -- guard: a letter is replayed once
        call('XDEL', letters, ARGV[i])
        let_go(letter)
      end
    end
    result[#result + 1] = ARGV[i]
    result[#result + 1] = status
  end
  announce(0)
  save_clock()
  return result
end

register('replay', replay)
