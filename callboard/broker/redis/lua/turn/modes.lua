-- What the mode of a commit says, worked out when it comes for the first time: there are few modes, and to look at the marks of one
-- takes as long as a command.
--
-- marks       its marks, one after the other
-- is_plain    there is nothing to write but that it is handled
-- comes_back  its entry is not acknowledged
-- is_commit   it is handled
-- is_last     the worker holds no more of the agent
-- has_logs, has_reply, is_tried  it has this mark
-- is_simple   it is handled, the worker holds no more of the agent, and there is nothing to write but a reply; see alone.lua

local COMES_BACK = { [RETRY] = true, [RELEASE] = true, [WAIT] = true, [SUSPEND] = true }

local function read_mode(mode)
  local marks, has = {}, {}
  for i = 1, #mode do
    marks[i] = string.sub(mode, i, i)
    has[marks[i]] = true
  end
  local said = { marks = marks, is_plain = mode == COMMIT or mode == COMMIT .. MORE, comes_back = COMES_BACK[marks[1]] or false,
    is_commit = marks[1] == COMMIT, has_logs = has[LOGS] or false, has_reply = has[REPLY] or false, is_tried = has[TRIED] or false }
  -- guard: an agent stays with the worker that holds more of it
  said.is_last = not has[MORE]
  said.is_simple = mode == COMMIT or mode == COMMIT .. REPLY
  return said
end

local mode_of = remembering(read_mode, 500)
