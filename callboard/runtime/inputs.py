"""The questions of a namespace, for those who answer them: from any process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from callboard.broker import AgentId
from callboard.broker.ids import check_text
from callboard.broker.redis.client.questions import AWAITED_RUN, InputStatus, Refusal
from callboard.broker.redis.client.transport import RedisTransport
from callboard.core.people import InputRequest, as_json
from callboard.errors import (
    InputAnsweredError,
    InputError,
    InputExpiredError,
    InputRequestUnknownError,
    InputValueError,
    InputWithdrawnError,
    NotAllowedToAnswerError,
)

from .effects import names_in

AT_ONCE: Final = 200  # questions that are read at once


class Inputs:
    """Questions that handlers asked with `ctx.ask`.

    ```python
    for request in await runtime.inputs.list():
        print(request.id, request.question)
    await runtime.inputs.answer(request.id, "yes", by="ada")
    ```

    Args:
        connect: returns the open transport.
    """

    def __init__(self, connect: Callable[[], Awaitable[RedisTransport]]) -> None:
        self._connect = connect

    async def list(
        self, run: str | None = None, agent: AgentId | str | None = None, *, key: str | None = None
    ) -> list[InputRequest]:
        """The questions that are open, the oldest first; that a handler waits for a run is none.

        Of one whose record was changed by hand `get` says what is wrong. What is looked at are those of the run, or of the
        key: not all of the namespace.

        Args:
            run: Only those of this run and of the runs inside it: an id, also that of its stream.
            agent: Only those of this agent: an id, or `type/key`.
            key: Only those of agents with this key, such as all of a conversation.

        Raises:
            InvalidIdError: The agent's id has not the form `type/key` (a ValueError).
        """
        transport = await self._connect()
        of = None if agent is None else str(agent)
        if of is not None and key is None:
            key = AgentId.from_str(of).key
        ids = await transport.inputs.open_ids(run, key)
        found: list[InputRequest] = []
        for start in range(0, len(ids), AT_ONCE):
            part = ids[start : start + AT_ONCE]
            records = await asyncio.gather(*map(transport.inputs.get, part))
            found += _readable(zip(part, records, strict=True))
        return [
            one
            for one in found
            if one.status is InputStatus.OPEN
            and one.details.get("kind") != AWAITED_RUN
            and (run is None or run in names_in(one.run_path or ""))
            and (of is None or str(one.agent) == of)
            and (key is None or one.agent.key == key)
        ]

    async def get(self, input_id: str) -> InputRequest:
        """A question, also one that has ended: it is kept for `dedupe_window` (a day) after its message was handled.

        Raises:
            InputRequestUnknownError: There is none.
            InputError: Its record was changed by hand.
        """
        fields = await (await self._connect()).inputs.get(input_id)
        if not fields:
            raise InputRequestUnknownError(input_id)
        return InputRequest.of(input_id, fields)

    async def answer(self, input_id: str, value: Any, *, by: str = "") -> None:
        """Answers a question: its handler goes on.

        Args:
            input_id: Id of the question.
            value: The answer: plain data, or a pydantic model.
            by: Who answers.

        Raises:
            InputRequestUnknownError: There is no such question.
            InputAnsweredError: Another answer came first.
            InputExpiredError, InputWithdrawnError: It has ended.
            NotAllowedToAnswerError: It was put to another person.
            InputValueError: The answer is not what was asked for, or no plain data.
        """
        request = await self.get(input_id)
        _refuse(input_id, _ended(request))
        if request.to and by not in request.to:
            raise NotAllowedToAnswerError(input_id, by, request.to)
        answer = as_json(value)
        transport = await self._connect()
        if len(answer) > transport.settings.max_payload:
            raise InputValueError(input_id, f"it has more than {transport.settings.max_payload:,} bytes")
        request.check(json.loads(answer))
        _refuse(input_id, await transport.inputs.answer(input_id, answer, check_text("by", by)))

    async def withdraw(self, input_id: str, *, by: str = "") -> None:
        """Withdraws a question: its handler goes on with InputWithdrawnError.

        Raises:
            InputRequestUnknownError, InputAnsweredError, InputExpiredError, InputWithdrawnError: As `answer` does.
        """
        _refuse(input_id, await (await self._connect()).inputs.withdraw(input_id, by))


def _readable(records: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[InputRequest]:
    """A damaged one is left out, so that the others can be answered."""
    for input_id, fields in records:
        with contextlib.suppress(InputError):
            yield InputRequest.of(input_id, fields)


def _ended(request: InputRequest) -> Refusal | None:
    if request.status is InputStatus.OPEN:
        return None
    return Refusal(request.status, int((request.ended or 0) * 1000), request.by)


def _refuse(input_id: str, refusal: Refusal | None) -> None:
    """Raises what keeps a question from being answered, if anything does."""
    if refusal is None:
        return
    if refusal.status is None:
        raise InputRequestUnknownError(input_id)
    if refusal.status is InputStatus.ANSWERED:
        raise InputAnsweredError(input_id, refusal.by, refusal.at / 1000)
    raise (InputExpiredError if refusal.status is InputStatus.EXPIRED else InputWithdrawnError)(input_id)
