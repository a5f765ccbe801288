"""What stands behind `ctx.ask`: questions are written at once, and a handler ends when all that is left for it is to wait.

A handler that asks several things at the same time, or asks beside steps that are recorded, ends when all its questions
are there and all those steps are over: what is finished before it ends is not done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

from pydantic_core import to_json

from callboard.broker import MessageRegistry
from callboard.broker.delivery import Receipt
from callboard.broker.ids import derived_id
from callboard.broker.inquiry import Asked, InputStatus, Inquiry
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.runs import RunWrite
from callboard.errors import InputExpiredError, InputWithdrawnError
from callboard.suspension import Suspended

from .run_events import write_of

if TYPE_CHECKING:
    from callboard.questions import CheckedQuestion

T = TypeVar("T")
PAUSE: Final = 0.02  # seconds in which a handler may begin the next step

steps_around: ContextVar[tuple[str, ...]] = ContextVar("callboard_steps", default=())
"""The recorded steps that what runs here is a part of, the outermost first."""


class Noting(Protocol):
    """Lets those who read a run see its questions.

    Attributes:
        stream: name of the stream that the readers read.
    """

    stream: str

    def asked(self, input_id: str, question: CheckedQuestion[Any]) -> Sequence[Any]:
        """Events that are written with a question, when it is asked first: all or nothing."""
        ...

    async def ended(self, input_id: str) -> None:
        """A handler goes on with what came of a question; told in every attempt."""
        ...


noting: ContextVar[Noting | None] = ContextVar("callboard_noting", default=None)
"""Told of the questions that are asked here."""


class Questions:
    """What one run of a handler asks.

    Args:
        transport: the connection to the server.
        registry: message classes.
        agent_type: of the agent.
        message_id: of the message.
        receipt: of the delivery that is handled.
        run: the run that the message belongs to; "" for none.
        running: the names of the steps that are running now.

    Attributes:
        without_answer: ids of the questions for which the handler has to wait, with the time when each expires (server ms)
            or None; when there are any, the attempt is over, whatever the handler does.
        cut_off: names of the steps that a question ended: whatever they return, it is not recorded.
        is_over: the handler has ended to wait; what it left behind begins nothing any more.
    """

    def __init__(
        self,
        transport: RedisTransport,
        registry: MessageRegistry,
        agent_type: str,
        message_id: str,
        receipt: Receipt,
        run: str,
        running: Callable[[], Collection[str]],
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._agent_type = agent_type
        self._message_id = message_id
        self._receipt = receipt
        self._run = run
        self._running = running
        self._being_asked = 0
        self._numbers: dict[str, int] = {}
        self._resting: dict[asyncio.Future[None], str | None] = {}
        self.without_answer: dict[str, int | None] = {}
        self.cut_off: set[str] = set()
        self.is_over = False
        self._timer: asyncio.TimerHandle | None = None

    async def ask(self, question: CheckedQuestion[T], prefix: str) -> T:
        """The answer; raises Suspended once there is nothing to do but to wait for it.

        Args:
            question: what is asked.
            prefix: keeps the questions of one call of a tool apart from those of others.
        """
        inquiry = self._inquiry(question, prefix)
        self._being_asked += 1
        try:
            asked = await self._transport.inputs.ask(
                self._receipt.fence,
                self._agent_type,
                self._message_id,
                inquiry,
                self._note(inquiry.id, question),
            )
        finally:
            self._being_asked -= 1
            self.look()
        if asked.status is InputStatus.OPEN:
            await self._end_attempt(inquiry.id, asked)
        await self._note_end(inquiry.id)
        return _answer(question, inquiry.id, asked)

    def _note(self, input_id: str, question: CheckedQuestion[T]) -> RunWrite | None:
        note = noting.get()
        if note is None:
            return None
        events = note.asked(input_id, question)
        return write_of(note.stream, events, self._registry, self._transport.settings)

    async def _note_end(self, input_id: str) -> None:
        note = noting.get()
        if note is None:
            return
        self._being_asked += 1
        try:
            await note.ended(input_id)
        finally:
            self._being_asked -= 1
            self.look()

    async def _end_attempt(self, input_id: str, asked: Asked) -> NoReturn:
        steps = steps_around.get()
        if not steps:
            await self.rest(None)
        self.cut_off.update(steps)
        self.without_answer[input_id] = asked.expires
        self.look()
        _let_end_quietly(asyncio.current_task())
        raise Suspended

    def _inquiry(self, question: CheckedQuestion[T], prefix: str) -> Inquiry:
        # Equal questions of two calls of a tool are apart, whichever of them comes first.
        around = prefix or "".join(f"{step}/" for step in steps_around.get()[-1:])
        name = around + (question.name or question.digest)
        if not question.name:
            # Before anything is awaited: equal questions are numbered in the order of the calls, in every attempt.
            number = self._numbers[name] = self._numbers.get(name, 0) + 1
            name = f"{name}:{number}"
        receipt = self._receipt
        fields = {
            "key": receipt.raw_key.decode(errors="replace"),
            "run": self._run,
            "question": question.text,
            "schema": question.schema,
            **_lists(question),
            "details": question.details,
        }
        if question.default is not None:
            fields["default"] = question.default
        timeout = None if question.timeout is None else max(1, int(question.timeout * 1000))
        agent = f"{self._agent_type}/{fields['key']}"
        # guard: every attempt asks the same
        input_id = derived_id(self._message_id, agent, 1, name.encode())
        # On a command line what begins with a dash is an option.
        return Inquiry(input_id.replace("-", "x"), name, timeout, fields)

    async def rest(self, step: str | None) -> None:
        """Returns when there is nothing to do for the handler but to wait for answers.

        Not inside a step: what runs it, such as a tool, may have limits of time that are not meant for this.

        Args:
            step: the one that ends here, which is a part of no other; None: none, the handler itself has asked.
        """
        resting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting[resting] = step
        try:
            self.look()
            await resting
        finally:
            self._resting.pop(resting, None)

    def end(self) -> None:
        """The handler has ended: tasks that it left behind wait for no answer any more."""
        if self._timer is not None:
            self._timer.cancel()
        for future in self._resting:
            future.cancel()

    def look(self) -> None:
        """Ends the handler if there is nothing to do for it but to wait; told whenever something ended.

        A little later: what goes on after a step, or an answer, may begin the next step.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            asyncio.get_running_loop().call_later(PAUSE, self._end_if_quiet) if self._resting else None
        )

    def _end_if_quiet(self) -> None:
        # guard: a handler waits when what runs beside the question is over
        if (
            self._being_asked
            or not self._resting
            or any(step not in self._at_rest for step in self._running())
        ):
            return
        self.is_over = True
        for future in self._resting:
            if not future.done():
                future.set_result(None)

    @property
    def _at_rest(self) -> set[str | None]:
        return set(self._resting.values())


def _let_end_quietly(task: asyncio.Task[Any] | None) -> None:
    """A task that asks may be one that nobody waits for: that the attempt is over is no error which asyncio should log."""
    if task is not None:
        task.remove_done_callback(_look_at_end)  # a runner asks for one handler after the other
        task.add_done_callback(_look_at_end)


def _look_at_end(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _lists(question: CheckedQuestion[T]) -> dict[str, str]:
    return {"choices": to_json(question.choices).decode(), "to": to_json(question.to).decode()}


def _answer(question: CheckedQuestion[T], input_id: str, asked: Asked) -> T:
    if asked.status is InputStatus.WITHDRAWN:
        raise InputWithdrawnError(input_id)
    if asked.status is InputStatus.ANSWERED:
        return question.read(input_id, asked.answer)
    if not asked.default:
        raise InputExpiredError(input_id)
    return question.read(input_id, asked.default)
