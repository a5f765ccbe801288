from __future__ import annotations

import pytest

from callboard.broker.redis import arguments
from callboard.broker.redis.arguments import (
    ARGUMENTS,
    argument_constants,
    index_of,
    record_constants,
    width_of,
)
from callboard.broker.redis.library import OPERATIONS


def test_an_argument_has_one_place_for_both_sides() -> None:
    assert argument_constants("turn")["ARGV.scan"] == f"ARGV[{index_of('turn', 'scan') + 1}]" == "ARGV[6]"
    assert argument_constants("turn")["COUNT_AT"] == "9"


def test_a_record_is_counted_from_its_beginning() -> None:
    names = record_constants()
    assert (names["HEADED_ID"], names["HEADED_BODY"], names["HEADED_WIDTH"]) == ("0", "4", "5")
    assert width_of("HEADED") == 5


def test_one_name_stands_for_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "ARGUMENTS", {"control": ("action key", "action type key")})
    with pytest.raises(ValueError, match="'key' of 'control' has two places"):
        argument_constants("control")


def test_only_functions_have_arguments() -> None:
    assert ARGUMENTS.keys() <= set(OPERATIONS)
