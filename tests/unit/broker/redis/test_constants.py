from __future__ import annotations

import pytest

from callboard.broker.redis.assembly import take_constants, with_values


def test_constants_are_taken_out_with_their_values() -> None:
    text = (
        "local STEP = 2000 -- entries of one step's look\n"
        """local POINTER, MOST = '{"claim":"a"}', -4\n"""
        "local STEPS = {}\n"
        "local BYTES = 8 * 1024\n"
        "local P, ARGV\n"
        "  local INNER = 1\n"
    )
    rest, values = take_constants(text)
    assert values == {"STEP": "2000", "POINTER": """'{"claim":"a"}'""", "MOST": "-4"}
    assert rest == "\n\nlocal STEPS = {}\nlocal BYTES = 8 * 1024\nlocal P, ARGV\n  local INNER = 1\n"


def test_names_and_values_that_do_not_match_are_an_error() -> None:
    with pytest.raises(ValueError, match="shorter than"):
        take_constants("local STEP, MOST = 1\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("values[KEY] .. KEYS", "values[3] .. KEYS"),
        ("call('KEY', KEY)", "call('KEY', 3)"),
        ('call("KEY", KEY)', 'call("KEY", 3)'),
        ("a.KEY = KEY", "a.KEY = 3"),
        ("f(KEY) -- the agent's KEY, not KEY's", "f(3) -- the agent's KEY, not KEY's"),
        ("MY_KEY, KEY_", "MY_KEY, KEY_"),
    ],
)
def test_values_stand_in_the_place_of_names(text: str, expected: str) -> None:
    assert with_values(text, {"KEY": "3"}) == expected
