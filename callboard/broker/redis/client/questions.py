"""Questions of handlers at the server: asked, looked at, answered, withdrawn."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import chain
from typing import Final, NamedTuple

from callboard.broker.envelope import NO_FENCE, Fence
from callboard.broker.errors import FencedError
from callboard.broker.outcome import RunWrite

from .connection import Link, scan
from .lane import write_values


class InputStatus(StrEnum):
    """States of a question; all but the first are for good."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class Inquiry(NamedTuple):
    """The question of a handler, as it is written.

    Attributes:
        id: of the question, the same in every attempt at the message.
        name: tells it apart from others of the same handler.
        timeout: milliseconds until it expires; None: never.
        fields: what is kept to be shown and checked, as text: `key` (of the agent), `question`, `schema`, `default`, ...
    """

    id: str
    name: str
    timeout: int | None
    fields: dict[str, str]


class Asked(NamedTuple):
    """All that is known of a question that was asked.

    Attributes:
        status: what came of it.
        answer: JSON; "" without one.
        expires: when it expires, server ms; None: never.
        default: JSON of what is taken when it expires; "" for none.
        other_id: the id under which it was asked before, when its agent type had another name; "": that of the inquiry.
    """

    status: InputStatus
    answer: str
    expires: int | None
    default: str
    other_id: str = ""


AWAITED_RUN: Final = "callboard.run"
"""The kind, among the details of a question, of one that no person answers: its handler waits for the end of a run."""

LISTED: Final = "questions listed"  # in `config`, see ask.lua
PART: Final = 1000  # questions in one answer of the server


class Refusal(NamedTuple):
    """Why a question was not answered or withdrawn: it had ended before.

    Attributes:
        status: how; None: there is no such question.
        at: when, server ms.
        by: who answered it.
    """

    status: InputStatus | None
    at: int = 0
    by: str = ""


class InputStore:
    """Questions of a namespace, over one connection."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._listed = False

    async def ask(
        self,
        fence: Fence | None,
        agent_type: str,
        message_id: str,
        inquiry: Inquiry,
        note: RunWrite | None = None,
    ) -> Asked:
        """Asks a question, unless the handlers of the message did so before. Waits for the server.

        Args:
            fence: what has to be true for that.
            agent_type: of the agent.
            message_id: the message that it handles.
            inquiry: the question.
            note: written to a run when the question is asked by this.

        Raises:
            FencedError: another worker has the message; nothing was asked.
        """
        kept_for = int(self._link.settings.dedupe_window * 1000)
        timeout = "" if inquiry.timeout is None else inquiry.timeout
        of = (agent_type, message_id, inquiry.name, inquiry.id, timeout, kept_for)
        fields = tuple(chain.from_iterable(inquiry.fields.items()))
        written = () if note is None else write_values(note)
        arguments = (*(fence or NO_FENCE), *of, len(fields), *fields, *written)
        answer = await self._link.patiently(lambda: self._link.run("ask", arguments))
        if answer[0] == b"FENCED" and fence is not None:
            raise FencedError(fence.worker)
        status, given, expires, default, asked_as = (value.decode() for value in answer[1:])
        other_id = "" if asked_as == inquiry.id else asked_as
        return Asked(InputStatus(status), given, int(expires) if expires else None, default, other_id)

    async def answer(self, input_id: str, answer: str, by: str) -> Refusal | None:
        """Answers a question with JSON; None: it is answered by this."""
        return await self._end(InputStatus.ANSWERED, input_id, answer, by)

    async def withdraw(self, input_id: str, by: str) -> Refusal | None:
        """Withdraws a question; None: it is withdrawn by this."""
        return await self._end(InputStatus.WITHDRAWN, input_id, "", by)

    async def _end(self, status: InputStatus, input_id: str, answer: str, by: str) -> Refusal | None:
        found = await self._link.run("input", (status.value, input_id, answer, by))
        if found[0] == b"OK":
            return None
        if found[0] == b"unknown":
            return Refusal(None)
        return Refusal(InputStatus(found[0].decode()), int(found[1] or 0), found[2].decode())

    async def get(self, input_id: str) -> Mapping[str, str]:
        """The fields of a question; {} when there is none."""
        flat = await self._link.command("HGETALL", self._link.keys.of(f"input:{input_id}"))
        return _fields(flat)

    async def open_ids(self, run: str | None = None, key: str | None = None) -> list[str]:
        """The ids of the questions that are open, the oldest first; more than asked for, where older versions asked.

        They are read in parts, for there may be very many.

        Args:
            run: those of this run, or part of one.
            key: those of agents with this key; what is said first counts.
        """
        name = "inputs" if key is None else f"inputs:{key}"
        name = name if run is None else f"asking:{run}"
        if name != "inputs" and not await self._are_listed():
            name = "inputs"
        asked: dict[str, float] = {}
        async for part in scan(self._link, "ZSCAN", self._link.keys.of(name), page=PART):
            asked.update((part[i].decode(), float(part[i + 1])) for i in range(0, len(part), 2))
        return sorted(asked, key=lambda one: (asked[one], one))

    async def _are_listed(self) -> bool:
        """Whether every open question is in the lists of its runs and its key; once true, it stays true."""
        if not self._listed:
            known = await self._link.command("HGET", self._link.keys.of("config"), LISTED)
            self._listed = known is not None
        return self._listed


def _fields(flat: list[bytes]) -> dict[str, str]:
    texts = [one.decode(errors="replace") for one in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))
