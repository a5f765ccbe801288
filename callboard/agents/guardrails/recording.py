"""Verdicts as plain data: recorded in handlers, so that no guardrail is asked twice about the same thing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, Protocol, TypeVar

from callboard.memory.llm_messages import FunctionCall
from callboard.messages.base import BaseChatMessage
from callboard.messages.unions import read_message
from callboard.runtime.steps import NumberedStep

from .verdicts import Asks, Changed, Passed, Refused, Verdict

T = TypeVar("T")
DIGITS: Final = 32  # of the hash of what is checked


class Form(Protocol[T]):
    """How a kind of thing that is checked is written and read."""

    name: str

    def write(self, thing: T) -> Any:
        """It as plain data."""
        ...

    def read(self, data: Any) -> T:
        """It from what `write` returned."""
        ...

    def shown(self, thing: T) -> Any:
        """What of it is the same in every attempt, as plain data."""
        ...


class TaskForm:
    """Tasks."""

    name = "task"

    def write(self, thing: Sequence[BaseChatMessage]) -> Any:
        return [message.dump() for message in thing]

    def read(self, data: Any) -> Sequence[BaseChatMessage]:
        return [read_message(one) for one in data]

    def shown(self, thing: Sequence[BaseChatMessage]) -> Any:
        return [_content(message) for message in thing]


class CallForm:
    """Calls."""

    name = "call"

    def write(self, thing: FunctionCall) -> Any:
        return asdict(thing)

    def read(self, data: Any) -> FunctionCall:
        return FunctionCall(**data)

    def shown(self, thing: FunctionCall) -> Any:
        return self.write(thing)


class AnswerForm:
    """Answers."""

    name = "answer"

    def write(self, thing: BaseChatMessage) -> Any:
        return thing.dump()

    def read(self, data: Any) -> BaseChatMessage:
        message: BaseChatMessage = read_message(data)
        return message

    def shown(self, thing: BaseChatMessage) -> Any:
        return _content(thing)


async def recorded(
    number: int, thing: T, form: Form[T], ask: Callable[[T], Awaitable[Verdict[T]]]
) -> Verdict[T]:
    """What a guardrail says, in a handler from the record if it is there.

    Args:
        number: Of the guardrail among those of its assistant.
        thing: What it checks.
        form: How that is written.
        ask: Asks the guardrail.
    """
    what = json.dumps(form.shown(thing), sort_keys=True, default=str).encode()
    step = NumberedStep.begin(f"guardrail:{number}:{form.name}:{hashlib.sha256(what).hexdigest()[:DIGITS]}")
    if step is None:
        return await ask(thing)

    async def judge() -> dict[str, Any]:
        return _write(await ask(thing), form)

    # guard: what a guardrail said is recorded before anybody goes by it
    return _read(await step.run(judge), form)


def _content(message: BaseChatMessage) -> Any:
    """A message without what is new in every attempt: its id, and when it was made."""
    data = message.dump()
    return {key: value for key, value in data.items() if key not in ("id", "created_at")}


def _write(verdict: Verdict[T], form: Form[T]) -> dict[str, Any]:
    if isinstance(verdict, Changed):
        return {"verdict": "changed", "value": form.write(verdict.value)}
    if isinstance(verdict, Refused):
        return {"verdict": "refused", **asdict(verdict)}
    if isinstance(verdict, Asks):
        return {"verdict": "asks", **asdict(verdict)}
    return {"verdict": "passed"}


def _read(data: dict[str, Any], form: Form[T]) -> Verdict[T]:
    fields = {key: value for key, value in data.items() if key != "verdict"}
    match data["verdict"]:
        case "changed":
            return Changed(form.read(fields["value"]))
        case "refused":
            return Refused(**fields)
        case "asks":
            return Asks(**fields)
        case _:
            return Passed()
