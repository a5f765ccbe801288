"""Effects of a handler that are recorded before they are used: `ctx.once`, `ctx.ask`, and events of its run.

Temporal and Restate call such a record a journal. An effect that was made but whose result could not be recorded (the
process died in between) is made again: give it `ctx.idempotency_key(name)` where that matters.

A handler that asks several things at the same time, or asks beside steps that are recorded, ends when all its questions
are there and all those steps are over: what is finished before it ends is not done again.

The path of a run says what its events and its use of models count for. A path names runs from the outermost to the
innermost one, with RUN between them; a run may have parts, with PART before each, such as one conversation of several,
or the turn of a nested team: `42 PART @8f1c PART /3`. What is used counts for each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import typing
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import msgpack
from pydantic_core import to_json

from callboard.broker import BrokerSettings, MessageRegistry
from callboard.broker.envelope import Receipt
from callboard.broker.errors import EncodeError, PayloadTooLargeError
from callboard.broker.ids import derived_id
from callboard.broker.limits import Limits
from callboard.broker.outcome import RunEvent, RunWrite
from callboard.broker.redis.client.questions import Asked, InputStatus, Inquiry
from callboard.broker.redis.client.transport import RedisTransport
from callboard.core.cancellation import Suspended
from callboard.core.context import called
from callboard.errors import CannotAskError, InputExpiredError, InputWithdrawnError, SettingValueError

from .errors import EventTooLargeError

if TYPE_CHECKING:
    from callboard.core.people import Question


steps_around: ContextVar[tuple[str, ...]] = ContextVar("callboard_steps", default=())
"""The recorded steps that what runs here is a part of, the outermost first."""


class EffectRecorder:
    """The recorded results of one message at one agent.

    Args:
        transport: the connection to the server.
        registry: message classes.
        agent_type: of the agent.
        message_id: of the message.
        receipt: of the delivery that is handled: another worker may have the message by now, and then nothing is done.
        prefix: keeps the results of a nested request apart.
        run_id: the run that the message belongs to.

    Attributes:
        questions: what the handler asks; None: it has asked nothing.
        used: whether anything was recorded or looked up, so that the commit has to clear it away.
    """

    __slots__ = (
        "_agent_type",
        "_message_id",
        "_prefix",
        "_receipt",
        "_registry",
        "_run_id",
        "_running",
        "_transport",
        "_waiting",
        "questions",
        "used",
    )

    def __init__(
        self,
        transport: RedisTransport,
        registry: MessageRegistry,
        agent_type: str,
        message_id: str,
        receipt: Receipt | None = None,
        prefix: str = "",
        run_id: str | None = None,
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._agent_type = agent_type
        self._message_id = message_id
        self._receipt = receipt
        self._prefix = prefix
        self._running: dict[str, asyncio.Future[Any]] = {}
        self._waiting: dict[str, int] = {}
        self._run_id = run_id
        self.questions: Questions | None = None
        self.used = False

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """The recorded result of `name`, else that of `call()`, recorded first. A failure is not recorded."""
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = asyncio.ensure_future(self._run(name, call))
            running.add_done_callback(partial(self._ended, name))
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            # A caller that is cancelled leaves the effect to the other callers that wait for it.
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if self._waiting[name] == 1:
                running.cancel()
                await asyncio.wait({running})
            raise
        finally:
            self._waiting[name] -= 1

    def _ended(self, name: str, _: asyncio.Future[Any]) -> None:
        self._running.pop(name, None)
        if self.questions is not None:
            self.questions.look()

    async def ask(self, text: str, *, prefix: str = "", **how: Any) -> Any:
        """The answer of a person, or Suspended, see `Questions`; `prefix` as for the names of steps."""
        from callboard.core.people import Question  # few handlers ask, and jsonschema's part is large

        question = Question.of(text, **how)
        if self._receipt is None or self._prefix:
            raise CannotAskError(
                "it is a request to an agent whose handler waits, and can't wait longer than that one; "
                "let the handler that waits ask, or answer that something has to be asked"
            )
        self.used = True
        if self.questions is None:
            of = (
                self._transport,
                self._registry,
                self._agent_type,
                self._message_id,
                self._receipt,
                self._run_id or "",
            )
            self.questions = Questions(*of, self._running.keys)
        return await self.questions.ask(question, prefix)

    async def _run(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        self.used = True
        around = steps_around.get()
        steps_around.set((*around, name))
        fence = None if self._receipt is None else self._receipt.fence
        step = (fence, self._agent_type, self._message_id, self._prefix + name)
        # Asked before every effect: a worker may be paused at any time, and find at its end that another one has the
        # message, has made the same effect, and has committed.
        recorded = await self._transport.recorded(*step)
        # guard: what was recorded is not done again
        if recorded is not None:
            return self._decode(recorded, call)
        # A task that it left behind goes on until it is told: its effect could not be recorded any more.
        # guard: a handler that has ended to wait for an answer makes no effect
        if self.questions is not None and self.questions.is_over:
            raise Suspended
        try:
            result = await called(name, call)
        except (Suspended, BaseExceptionGroup):
            await self._rest_if_cut_off(name, not around)
            raise
        await self._rest_if_cut_off(name, not around)
        data = self._encode(result)
        # guard: an effect is recorded before it is used
        kept = await self._transport.record(*step, data)
        return result if kept == data else self._decode(kept, call)

    async def _rest_if_cut_off(self, name: str, is_outermost: bool) -> None:
        """Raises Suspended if a question has ended the step, however its function took that."""
        if self.questions is None or name not in self.questions.cut_off:
            return
        if is_outermost:
            await self.questions.rest(name)
        # guard: what a question cut off is not recorded
        raise Suspended

    def _encode(self, result: Any) -> bytes:
        entry = self._registry.entry_for(result)
        limits = self._limits()
        body = entry.encode(result, limits)
        # Kept all the same, it would make a dead letter of the message in its next attempt, which can't read it.
        # guard: what no attempt could read is not recorded
        if len(body) > limits.max_bytes:
            raise PayloadTooLargeError(len(body), limits.max_bytes, is_claim=True)
        packed: bytes = msgpack.packb([entry.name, entry.version, body])
        return packed

    def _decode(self, data: bytes, call: Callable[[], Awaitable[Any]]) -> Any:
        name, version, body = msgpack.unpackb(data)
        if not self._registry.is_known(name):
            # Another process recorded it, and no message of this one has brought the class along yet.
            for cls in _result_classes(call):
                with contextlib.suppress(EncodeError):  # a class that is no message is not the one
                    self._registry.register(cls)
        return self._registry.decode(name, version, body, self._limits())

    def _limits(self) -> Limits:
        # A record lies beside its stream, as what is sent by claim check does.
        return Limits.of_claims(self._transport.settings)


def _result_classes(call: Callable[[], Awaitable[Any]]) -> Iterator[type[Any]]:
    """The classes that the return annotation of a function, or of what a partial calls, names."""
    function = call.func if isinstance(call, partial) else call
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):
        return  # annotations that can't be read say nothing; then the class has to be registered
    waiting = [hints.get("return")]
    while waiting:
        found = waiting.pop()
        waiting += typing.get_args(found)
        if isinstance(found, type):
            yield found


PAUSE: Final = 0.02  # seconds in which a handler may begin the next step


# Questions for people


class Noting(Protocol):
    """Lets those who read a run see its questions.

    Attributes:
        stream: name of the stream that the readers read.
    """

    stream: str

    def asked(self, input_id: str, question: Question) -> Sequence[Any]:
        """Events that are written with a question, when it is asked first: all or nothing."""
        ...

    async def waits(self, input_id: str, question: Question) -> None:
        """A handler is about to end because a question has no answer yet; told in every attempt."""
        ...

    async def ended(self, input_id: str) -> None:
        """A handler goes on with what came of a question; told in every attempt."""
        ...


noting: ContextVar[Noting | None] = ContextVar("callboard_noting", default=None)
"""Told of the questions that are asked here."""


class Questions:
    """The questions of one run of a handler.

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

    async def ask(self, question: Question, prefix: str) -> Any:
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
            input_id = asked.other_id or inquiry.id
            if asked.status is InputStatus.OPEN and (note := noting.get()) is not None:
                await note.waits(input_id, question)
        finally:
            self._being_asked -= 1
            self.look()
        if asked.status is InputStatus.OPEN:
            await self._end_attempt(input_id, asked)
        await self._note_end(input_id)
        return _answer(question, input_id, asked)

    def _note(self, input_id: str, question: Question) -> RunWrite | None:
        note = noting.get()
        if note is None:
            return None
        events = note.asked(input_id, question)
        if not events:
            return None
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

    def _inquiry(self, question: Question, prefix: str) -> Inquiry:
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
            "details": question.details_json,
        }
        if question.default_json is not None:
            fields["default"] = question.default_json
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
    """A task that asks may be one that is not awaited: that the attempt is over is no error which asyncio should log."""
    if task is not None:
        task.remove_done_callback(_look_at_end)  # a runner asks for one handler after the other
        task.add_done_callback(_look_at_end)


def _look_at_end(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _lists(question: Question) -> dict[str, str]:
    return {"choices": to_json(question.choices or ()).decode(), "to": to_json(question.to).decode()}


def _answer(question: Question, input_id: str, asked: Asked) -> Any:
    if asked.status is InputStatus.WITHDRAWN:
        raise InputWithdrawnError(input_id)
    if asked.status is InputStatus.ANSWERED:
        return question.read(input_id, asked.answer)
    if not asked.default:
        raise InputExpiredError(input_id)
    return question.read(input_id, asked.default)


# Events of runs


def write_of(
    run: str, events: Sequence[Any], registry: MessageRegistry, settings: BrokerSettings
) -> RunWrite:
    """Events that are added to a run together.

    Raises:
        EventTooLargeError: One of them is.
    """
    limits = Limits.of(settings)
    encoded = [encoded_event(event, registry, limits) for event in events]
    return RunWrite(run, encoded, settings.run_events, int(settings.run_retention * 1000))


def encoded_event(event: Any, registry: MessageRegistry, limits: Limits) -> RunEvent:
    """One event as it is written.

    Raises:
        EventTooLargeError: It is.
    """
    kind = registry.entry_for(event)
    body = kind.encode(event, limits)
    if len(body) > limits.max_bytes:
        raise EventTooLargeError(len(body), limits.max_bytes)
    return RunEvent(kind.name, kind.version, body)


# Paths of runs

RUN: Final = "\x1f"
PART: Final = "\x1e"
MOST_PATH: Final = 2_000  # characters


def id_in(path: str) -> str:
    """The id of the innermost run."""
    return path.rpartition(RUN)[2].partition(PART)[0]


def names_in(path: str) -> list[str]:
    """The names of all runs and their parts: `42`, `42@8f1c`, `42@8f1c/3`; the larger ones first."""
    names: list[str] = []
    for run in path.split(RUN):
        name = ""
        for part in run.split(PART):
            name += part
            names.append(name)
    return names


def with_part(path: str, part: str) -> str:
    """The path of a part of a run.

    Raises:
        SettingValueError: There are too many of them inside each other.
    """
    return _checked(f"{path}{PART}{part}")


def within(outer: str | None, path: str) -> str:
    """The path of a run inside another one, if there is one.

    Raises:
        SettingValueError: There are too many of them inside each other.
    """
    return path if outer is None else _checked(f"{outer}{RUN}{path}")


def _checked(path: str) -> str:
    if len(path) > MOST_PATH:
        raise SettingValueError(
            "run", repr(id_in(path)), "inside fewer others: runs that start runs are too deep"
        )
    return path
