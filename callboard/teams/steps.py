"""The steps of the turn loop on the bus, by name: where a process may die, and tests let it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

STEPS: Final = (
    "run asked for",  # the manager has the task, and nothing is chosen
    "run begins",  # who speaks first is chosen, and nothing is committed
    "member asked",  # a member has its turn, and nothing has run
    "member answers",  # its agent has spoken, and nothing is committed
    "answer heard",  # the manager has the answer, and nothing is checked or chosen
    "turn ends",  # who speaks next is chosen, and nothing is committed
)
"""What happens in a turn, in its order. Beside these, models and tools are called between "member asked" and "answers"."""

FORK_STEPS: Final = (
    "fork cut",  # the manager has read what the conversation was, and nothing is sent
    "fork born",  # the new conversation's manager has its part, and nothing is committed
)
"""What happens when a conversation is forked."""

OnStep = Callable[[str], Awaitable[None]]

_watching: list[OnStep] = []


def watch_steps(call: OnStep) -> None:
    """Await a function at each step of this process, with the step's name; for tests."""
    _watching.append(call)


async def reached(step: str) -> None:
    """A step is reached."""
    for call in _watching:
        await call(step)
