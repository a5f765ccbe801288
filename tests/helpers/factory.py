"""Seed 004's listing with our imports: A splits, B does, C compiles, D reviews, three times; and what tests see of it.

`callboard worker tests.helpers.factory:app --type AgentB` runs one of its roles in a process of its own.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from callboard import App
from callboard.roles import (
    MESSAGE_ROUTE_TO_NONE,
    Action,
    Context,
    Environment,
    Message,
    Role,
    UserRequirement,
)

SUBTASKS = 10
ROUNDS = 3
begun: Counter[str] = Counter()  # in this process; an act that is cut off counts too


def split_10_subtask(text: str) -> list[str]:
    return [f"{text} {number}" for number in range(SUBTASKS)]


def die_once(name: str) -> None:
    """Ends this process as kill -9 does, if a file of that name is there, and only once however many processes look."""
    folder = os.environ.get("DEATHS")
    if folder is not None:
        try:
            (Path(folder) / name).unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class AgentAAction(Action):
    async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> list[str]:
        assert with_messages is not None
        begun["A"] += 1
        subtasks: list[str] = split_10_subtask(with_messages[0].content)
        return subtasks


class AgentA(Role):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([AgentAAction])
        self._watch({UserRequirement})

    async def _act(self) -> Message:
        assert self.rc.todo is not None
        subtasks = await self.rc.todo.run(self.rc.history)
        for i in subtasks:
            self.rc.env.publish_message(Message(content=i, cause_by=AgentAAction))
        return Message(content="dummy message", send_to=MESSAGE_ROUTE_TO_NONE)


class Doing(Action):
    async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> Message:
        assert with_messages is not None
        letter = type(self).__name__[5]
        begun[letter] += 1
        die_once(f"{letter} {begun[letter]}")
        return Message(content=f"{letter}({with_messages[-1].content})")


class AgentBAction(Doing):
    pass


class AgentCAction(Doing):
    pass


class AgentDAction(Doing):
    pass


class AgentB(Role):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([AgentBAction])
        self._watch({AgentAAction, AgentDAction})


class AgentC(Role):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([AgentCAction])
        self._watch({AgentBAction})


class AgentD(Role):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([AgentDAction])
        self._watch({AgentCAction})


def roles() -> list[Role]:
    return [AgentA(), AgentB(), AgentC(), AgentD()]


def counts(env: Environment) -> dict[str, int]:
    """How many messages each role has sent: for B, C and D how often it acted in effect."""
    senders = Counter(message.sent_from.rpartition(".")[2] for message in env.history.get())
    return {name: senders[name] for name in ("AgentA", "AgentB", "AgentC", "AgentD")}


WANTED = {"AgentA": SUBTASKS, "AgentB": 30, "AgentC": 30, "AgentD": 30}

app = App("factory")
environment = Environment(context=Context())
environment.add_roles(roles())
environment.declare(app)
