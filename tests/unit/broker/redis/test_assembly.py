from __future__ import annotations

import pytest

from callboard.broker.redis.assembly import assemble

CLOCK = """-- The time.
local SECOND = 1000
local function now() -- of the server
    return raw() * SECOND
end
local raw
"""
IDLE = """
local MARK, WAIT = 'a', 5
call(now(), MARK, WAIT, LIMIT, ARGV.place)
  -- the end
"""


def test_files_become_blocks_that_know_what_they_share() -> None:
    made = assemble([CLOCK], [([IDLE], {"ARGV.place": "ARGV[1]"})], {"LIMIT": "7"})
    assert [line for line in made.splitlines() if line] == [
        "local now",
        "do",
        "function now() -- of the server",
        "    return raw() * 1000",
        "end",
        "local raw",
        "end",
        *("do", "do", "call(now(), 'a', 5, 7, ARGV[1])", "end", "end"),
    ]


def test_an_argument_that_a_function_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError, match=r"ARGV\.plaec"):
        assemble([], [(["call(ARGV.plaec)"], {"ARGV.place": "ARGV[1]"})], {})
