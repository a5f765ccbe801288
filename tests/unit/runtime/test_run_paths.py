from __future__ import annotations

import pytest

from callboard.errors import SettingValueError
from callboard.models.budget import run_scopes
from callboard.runtime.effects import PART, id_in, names_in, with_part, within
from callboard.runtime.execution import in_run_path, run_id, usage_run


def test_a_run_counts_for_all_that_it_is_a_part_of() -> None:
    outer = with_part(with_part("42", "@8f"), "/3")
    path = within(outer, with_part("7", "@c1"))
    assert names_in(path) == ["42", "42@8f", "42@8f/3", "7", "7@c1"]
    assert id_in(path) == "7"
    with in_run_path(path):
        assert run_id() == "7"
        assert run_scopes() == ("run:42", "run:42@8f", "run:42@8f/3", "run:7", "run:7@c1")


def test_runs_inside_each_other_have_an_end() -> None:
    path = within("r" * 1_000, "r" * 999)
    with pytest.raises(SettingValueError, match="inside fewer others"):
        within(path, "r")


def test_an_id_can_not_look_like_a_path() -> None:
    with pytest.raises(SettingValueError, match="without control characters"), usage_run(f"a{PART}b"):
        pass
