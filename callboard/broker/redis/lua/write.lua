-- Writes to the streams of runs, each write once.
--
-- run:<id>         see runs.lua
-- sent:<producer>  see batches.lua
--
-- ARGV: producer, number of the batch, count, then for each write: worker and what it has to hold (see workers.lua), or '' and '',
--   then what write_run() reads
-- Returns {word, word, ...}, for each write the id of its first event, or 'none', 'fenced' or 'unwritable'.

local function write_one(at)
  -- guard: what a zombie writes to a run is refused
  if is_fenced(ARGV[at], ARGV[at + WRITER_HOLDS]) then return 'fenced' end
  local first = write_run(at + WRITER_WIDTH)
  if not first then return 'unwritable' end
  return first == '' and 'none' or first
end

local function write()
  local producer, number, at = ARGV.producer, ARGV.batch, WRITES_AT
  local result = answer_again(producer, number)
  -- guard: a batch is written once
  if result then return result end
  result = {}
  for i = 1, tonumber(ARGV.count) do
    result[i] = write_one(at)
    at = behind_write(at + WRITER_WIDTH)
  end
  keep_answer(producer, number, table.concat(result, ' '))
  return result
end

register('write', write, true)
