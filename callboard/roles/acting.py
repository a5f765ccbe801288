"""One act of a role: what it answers to, and what it has said so far. A context variable tells which it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from .message import Message, Part, plain_message
from .names import MESSAGE_ROUTE_TO_NONE
from .routing import merged, rounds_of


class ActingRole(Protocol):
    """A role, as far as an act needs it."""

    @property
    def agent_type(self) -> str:
        """Its name on the bus."""
        ...

    @property
    def address(self) -> str:
        """What its messages name as their sender."""
        ...

    def cause(self) -> str:
        """The action that is under way; "" when there is none."""
        ...


class Acting:
    """What leaves with the commit of one act.

    Args:
        role: Who acts.
        news: What it answers to.
        subtask: The part of the work that it works on.
    """

    def __init__(self, role: ActingRole, news: Sequence[Message], subtask: tuple[Part, ...]) -> None:
        self._role = role
        self._news = news
        self._subtask = subtask
        self._said: list[Message] = []

    @property
    def sender(self) -> str:
        """Who acts, as its name on the bus."""
        return self._role.agent_type

    def say(self, message: Message) -> Message:
        """Add a message, as it will be sent but for its subtask; it leaves with the commit."""
        message = plain_message(message).model_copy(update=self._circumstances(message))
        if MESSAGE_ROUTE_TO_NONE not in message.send_to:
            self._said.append(message)
        return message

    def _circumstances(self, message: Message) -> dict[str, object]:
        acts = merged(self._news)
        acts[self._role.agent_type] = acts.get(self._role.agent_type, 0) + 1
        cause = message.cause_by if message.has_cause else self._role.cause() or message.cause_by
        return {
            "cause_by": cause,
            "sent_from": message.sent_from or self._role.address,
            "acts": acts,
            "subtask": self._subtask,
            "max_rounds": rounds_of(self._news) if message.max_rounds is None else message.max_rounds,
        }

    def messages(self) -> list[Message]:
        """Everything that was said, in order.

        Several messages of one act that have one cause and go to the same are subtasks: each has its number, and is handled
        apart from the others. A single one goes on with the work at hand.
        """
        counts = Counter(_kind(message) for message in self._said)
        numbers: Counter[tuple[str, frozenset[str]]] = Counter()
        done: list[Message] = []
        for message in self._said:
            kind = _kind(message)
            numbers[kind] += 1
            if counts[kind] > 1:
                part = Part(f"{self._news[-1].id} {message.cause_by}", numbers[kind], counts[kind])
                done.append(message.model_copy(update={"subtask": (*message.subtask, part)}))
            else:
                done.append(message)
        return done


_current: ContextVar[Acting | None] = ContextVar("callboard_role_acting", default=None)


def acting_now() -> Acting | None:
    """The act that this code is part of; None outside of all."""
    return _current.get()


@contextmanager
def begin(acting: Acting) -> Iterator[None]:
    """Make it the current act for a `with` block."""
    token = _current.set(acting)
    try:
        yield
    finally:
        _current.reset(token)


def _kind(message: Message) -> tuple[str, frozenset[str]]:
    return message.cause_by, frozenset(message.send_to)
