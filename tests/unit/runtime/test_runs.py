from __future__ import annotations

import asyncio

import pytest

from callboard.errors import SettingValueError
from callboard.runtime.execution import MOST_RUN_ID, run_id, usage_run


def test_outside_of_everything_there_is_no_run() -> None:
    assert run_id() is None


def test_the_inner_block_counts() -> None:
    with usage_run("outer"):
        with usage_run("inner"):
            assert run_id() == "inner"
        assert run_id() == "outer"
    assert run_id() is None


async def test_tasks_belong_to_the_run_that_they_were_started_in() -> None:
    async def of_task() -> str | None:
        return run_id()

    with usage_run("42"):
        task = asyncio.create_task(of_task())
    assert await task == "42"


@pytest.mark.parametrize("name", ["", "x" * (MOST_RUN_ID + 1)])
def test_an_id_is_short(name: str) -> None:
    with pytest.raises(SettingValueError, match="1 to 128 characters"), usage_run(name):
        pass
