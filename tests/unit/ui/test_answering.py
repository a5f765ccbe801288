"""Questions on the console, and what is typed there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.errors import InputAnsweredError
from callboard.messages import InputAnsweredEvent, InputRequestedEvent, TextMessage
from callboard.ui import Console

DONE = TaskResult(messages=[], stop_reason="enough")
EVIL = "\x1b[2J"


def asked(number: int, text: str = "May refund be called?", **details: Any) -> InputRequestedEvent:
    return InputRequestedEvent(
        source="desk",
        request_id=str(number),
        content=text,
        to=["ada"],
        details={"kind": "tool_approval", **details},
    )


def answered(number: int, by: str = "eve") -> InputAnsweredEvent:
    return InputAnsweredEvent(
        source="desk", request_id=str(number), status="answered", content='"yes"', by=by
    )


class Bus:
    """Takes answers, and says when there are so many."""

    def __init__(self, taken: tuple[str, ...] = ()) -> None:
        self.answers: list[tuple[str, Any, str]] = []
        self.taken = taken
        self.changed = asyncio.Event()

    async def answer(self, input_id: str, value: Any, /, *, by: str = "") -> None:
        self.changed.set()
        if input_id in self.taken:
            raise InputAnsweredError(input_id, "eve")
        self.answers.append((input_id, value, by))

    async def run(self, count: int, *items: Any) -> AsyncGenerator[Any, None]:
        for item in items:
            yield item
        while len(self.answers) < count:
            self.changed.clear()
            await self.changed.wait()
        yield DONE


def typed(*lines: str) -> Callable[[], str]:
    left = list(lines)
    return lambda: left.pop(0) if left else ""


async def test_what_is_typed_answers_one_question_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    bus = Bus()
    lines = typed("maybe\n", "\n", "yes\n", "no: late\n")
    await Console(bus.run(2, asked(1), asked(2)), answers=bus, by="ada", read=lines)
    assert bus.answers == [
        ("1", {"approved": True}, "ada"),
        ("2", {"approved": False, "reason": "late"}, "ada"),
    ]
    shown = capsys.readouterr().out
    assert (
        "---------- InputRequestedEvent (desk) ----------\nMay refund be called?\n[1] (to ada) yes, no"
        in shown
    )
    assert "say yes, no" in shown


async def test_a_line_never_answers_another_question_than_the_one_it_was_typed_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bus, is_reading, may_type = Bus(taken=("1",)), asyncio.Event(), threading.Event()
    loop, left = asyncio.get_running_loop(), ["yes\n", "no\n"]

    def read() -> str:
        loop.call_soon_threadsafe(is_reading.set)
        may_type.wait()
        return left.pop(0)

    async def run() -> AsyncGenerator[Any, None]:
        yield asked(1)
        await is_reading.wait()
        yield answered(1)
        yield asked(2)
        may_type.set()
        async for item in bus.run(1):
            yield item

    await Console(run(), answers=bus, by="ada", read=read)
    assert bus.answers == [("2", {"approved": False}, "ada")]
    assert '[1] answered by eve: "yes"' in capsys.readouterr().out


async def test_without_a_terminal_questions_are_shown_only(capsys: pytest.CaptureFixture[str]) -> None:
    bus = Bus()
    await Console(bus.run(0, asked(1, f"May {EVIL}?"), TextMessage(content="on", source="a")), answers=bus)
    shown = capsys.readouterr().out
    assert EVIL not in shown
    assert bus.answers == []


async def test_arguments_that_are_too_long_for_a_line_are_shown_in_full(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await Console(Bus().run(0, asked(1, "May refund be called with {…?", arguments={"to": "mallory"})))
    assert '"to": "mallory"' in capsys.readouterr().out


async def test_the_end_of_the_input_is_no_answer() -> None:
    bus = Bus()
    await Console(bus.run(0, asked(1)), answers=bus, read=typed())
    assert bus.answers == []
