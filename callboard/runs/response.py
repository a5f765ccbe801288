"""A run as programs see it, async or not: its events, its orders, and the thread of programs that are not async."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from callboard.agents.base import Said, TaskResult
from callboard.errors import MisuseError
from callboard.groupchat.context_variables import ContextVariables
from callboard.models.types import RunUsage
from callboard.testing.cassette import Cassette

from .events import (
    AgentMessageEvent,
    AsyncEventProcessorProtocol,
    Event,
    EventProcessorProtocol,
    Message,
    is_question,
)
from .projection import SoFar

RunState: TypeAlias = Literal["working", "input_required", "paused", "completed", "failed", "cancelled"]
"""How a run stands; the last three are for good."""


class RunSource(ABC):
    """One run, under way or over."""

    @property
    @abstractmethod
    def run_id(self) -> str:
        """Its id."""
        ...

    @abstractmethod
    def read(self, after: int, drafts: bool) -> AsyncGenerator[Sequence[Event], None]:
        """Its events, in portions, up to the last one of the run.

        Args:
            after: Number of the event behind which to begin; 0: from the start.
            drafts: Whether events are wanted that may not count.
        """
        ...

    @abstractmethod
    async def state(self) -> RunState:
        """How it stands."""
        ...

    @abstractmethod
    async def result(self) -> TaskResult:
        """Its result; waits for the end.

        Raises:
            RunCancelledError: It was cancelled (a RuntimeError).
            TeamRunError: It has failed (a RuntimeError).
        """
        ...

    @abstractmethod
    async def wait(self) -> None:
        """Until it has ended, however."""
        ...

    @abstractmethod
    async def said(self) -> Sequence[Said]:
        """Everything that was said and happened until now."""
        ...

    @abstractmethod
    async def cost(self) -> RunUsage:
        """The use of its models until now."""
        ...

    @abstractmethod
    async def answer(self, request_id: str, value: Any, by: str) -> None:
        """Answer a question."""
        ...

    @abstractmethod
    async def cancel(self) -> None:
        """End it now; nothing is done when it is over."""
        ...

    @abstractmethod
    async def pause(self) -> bool:
        """Let no agent begin to speak."""
        ...

    @abstractmethod
    async def resume(self) -> bool:
        """Let it go on."""
        ...

    @abstractmethod
    async def step(self) -> bool:
        """Let its next turn begin, if it waits for that."""
        ...

    async def export(self) -> Cassette:
        """It as a cassette; waits for the end.

        Raises:
            MisuseError: It lives in this process (a RuntimeError).
        """
        raise MisuseError(NOT_HERE.format(what="recorded", how="a_run(..., record=True, runtime=runtime)"))

    async def fork(self, conversation: str, at: int | None) -> str:
        """Make another conversation of what was said up to a turn.

        Raises:
            MisuseError: It lives in this process (a RuntimeError).
        """
        raise MisuseError(NOT_HERE.format(what="forked", how="a_run(..., runtime=runtime)"))


def without_team(usage: RunUsage, team: str) -> RunUsage:
    """The usage of a run with the agents' own names, as its events have them.

    Args:
        usage: The usage.
        team: Name of the team, which stays that of its manager.
    """
    parts = (replace(part, agent=part.agent.removeprefix(f"{team}.")) for part in usage.parts)
    return replace(usage, parts=tuple(parts))


NOT_HERE: Final = "a run in one process can't be {what}: give it a runtime, {how}"

T = TypeVar("T")


class AsyncRunResponseProtocol(Protocol):
    """The RFC's view of a run for async programs."""

    @property
    def events(self) -> AsyncIterator[Event]:
        """Its events."""
        ...

    @property
    def messages(self) -> Any:
        """Its messages."""
        ...

    @property
    def summary(self) -> Awaitable[str]:
        """Its result."""
        ...


class RunMessages:
    """The messages of a run.

    ``await messages``: all of them, when it has ended. ``async for message in messages``: each as it is said.

    Args:
        response: The run.
    """

    def __init__(self, response: AsyncRunResponse) -> None:
        self._response = response

    def __await__(self) -> Generator[Any, Any, list[Message]]:
        return self._whole().__await__()

    async def _whole(self) -> list[Message]:
        await self._response.wait()
        return (await self._response.so_far()).messages

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for event in self._response.events:
            if isinstance(event, AgentMessageEvent):
                yield event.message


class AsyncRunResponse:
    """A run. It goes on by itself, with any number of readers of its events, or none.

    Any number may read `events`, each from the start, while it goes on or when it is over; all see the same. Who leaves a
    loop only stops reading: `cancel` ends the run. `messages`, `summary`, `last_speaker`, `context_variables` and `cost`
    are awaited: they are there when it has ended, however it ended.

    Args:
        source: The run.
    """

    def __init__(self, source: RunSource) -> None:
        self.source = source

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.source.run_id

    # Reading

    @property
    def events(self) -> AsyncGenerator[Event, None]:
        """All that happens, from the start to the end. Each use is a reading of its own."""
        return self.events_from(0)

    def events_from(self, number: int, *, drafts: bool = False) -> AsyncGenerator[Event, None]:
        """The events behind one that is known.

        Args:
            number: Of the last event that is known; 0: from the start.
            drafts: Whether events are wanted that show what is under way, on the bus: pieces of texts, and calls of tools
                before their turn is committed. They are marked (`is_draft`), come to those only who read live, and again
                without the mark when they count. Where the process dies in which an agent was speaking, an
                InterruptedEvent says which of them are void, also to who read those before, and goes on here. In this
                process every event counts at once.
        """
        return self._read(number, drafts)

    async def _read(self, number: int, drafts: bool) -> AsyncGenerator[Event, None]:
        portions = self.source.read(number, drafts)
        try:
            async for portion in portions:
                for event in portion:
                    if is_question(event):
                        event.answered_by(self)
                    yield event
        finally:
            await portions.aclose()

    @property
    def messages(self) -> RunMessages:
        """Its messages: ``await response.messages``, or ``async for message in response.messages``."""
        return RunMessages(self)

    @property
    def summary(self) -> Awaitable[str]:
        """The text of the last message."""
        return self._told(lambda so_far: so_far.summary)

    @property
    def last_speaker(self) -> Awaitable[str]:
        """Who said it."""
        return self._told(lambda so_far: so_far.last_speaker)

    @property
    def context_variables(self) -> Awaitable[ContextVariables]:
        """The context variables of its agents."""
        return self._told(lambda so_far: so_far.context_variables)

    @property
    def cost(self) -> Awaitable[RunUsage]:
        """The use of its models, for each agent and model, the choice of speakers included."""
        return self._cost()

    async def so_far(self) -> SoFar:
        """Its messages until now."""
        so_far = SoFar()
        so_far.add(await self.source.said())
        return so_far

    async def _told(self, what: Callable[[SoFar], T]) -> T:
        await self.wait()
        return what(await self.so_far())

    async def _cost(self) -> RunUsage:
        await self.wait()
        return await self.source.cost()

    # Its end

    @property
    def state(self) -> Awaitable[RunState]:
        """How it stands: working, input_required, paused; completed, failed, cancelled."""
        return self.source.state()

    async def result(self) -> TaskResult:
        """Its result; waits for the end.

        Raises:
            RunCancelledError: It was cancelled (a RuntimeError).
            TeamRunError: An agent, the chat manager or a condition failed (a RuntimeError).
            Exception: What else it ended with.
        """
        return await self.source.result()

    async def wait(self) -> None:
        """Wait for the end, however it ends."""
        await self.source.wait()

    # Orders

    async def respond(self, request_id: str, value: Any, *, by: str = "") -> None:
        """Answer a question. The first answer counts; one that is refused leaves the question open.

        Args:
            request_id: The question; its event has it.
            value: The answer.
            by: Who answers.

        Raises:
            InputRequestUnknownError: The run has no such question (a LookupError).
            InputAnsweredError: It was answered before.
            InputExpiredError: Its time is over (a TimeoutError).
            InputWithdrawnError: It is not waited for any more.
            InputValueError: It can't be answered with this (a ValueError).
        """
        await self.source.answer(request_id, value, by)

    async def a_answer(self, request_id: str, value: Any) -> None:
        """The same, for events."""
        await self.source.answer(request_id, value, "")

    def answer(self, request_id: str, value: Any) -> None:
        """Not here: an event of an async run is answered with `a_respond`.

        Raises:
            MisuseError: Always (a RuntimeError).
        """
        raise MisuseError(
            "event.respond() can't wait here: the run is async; use `await event.a_respond(...)`"
        )

    async def cancel(self) -> None:
        """End it now; nothing more is said in it. Nothing is done when it is over."""
        await self.source.cancel()

    async def pause(self) -> bool:
        """Let no agent begin to speak until `resume`; False when nothing changed."""
        return await self.source.pause()

    async def resume(self) -> bool:
        """Let it go on; False when it was not paused."""
        return await self.source.resume()

    async def step(self) -> bool:
        """Let the next turn begin of a run with `step=True` without a reader; False when it does not wait for that."""
        return await self.source.step()

    async def export(self) -> Cassette:
        """A run with `record=True` as a cassette, from which `callboard.testing.replay` replays it; waits for the end.

        Raises:
            CassetteError: It was not recorded, or not completely (a ValueError).
            MisuseError: It lives in one process (a RuntimeError).
        """
        return await self.source.export()

    async def fork(self, conversation: str = "", *, at: int | None = None) -> str:
        """Make another conversation that has everything up to a turn of this run, which goes on untouched.

        ```python
        other = await response.fork(at=4)
        again = await a_run(team, message="Shorter, please.", runtime=runtime, conversation=other)
        ```

        Args:
            conversation: Its id; "": a new one.
            at: Number of the turn, see `TeamClient.turns`; None: the last turn of this run that has ended.

        Returns:
            The id of the conversation.

        Raises:
            TeamForkError: It can't be forked there, or there is a conversation of that id (a ValueError).
            MisuseError: It lives in one process (a RuntimeError).
        """
        return await self.source.fork(conversation or uuid.uuid4().hex, at)


GRACE: Final = 5.0  # seconds that runs get to end when the process ends
INSIDE: Final = (
    "{what} can't wait here: it is called by an agent of such a run, which would wait for itself; "
    "use `await a_run(...)`"
)


class LoopThread:
    """A thread with an event loop, until `close`.

    One for all runs, as clients of models hold connections that belong to a loop. It is a daemon: a process whose main
    thread has ended does not wait for it; `close` is called before.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._ready: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._ending: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name="callboard-runs", daemon=True)
        self._thread.start()
        self.loop = self._ready.result()

    def call(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Do something in the loop, and wait for it.

        Args:
            work: What to do. When this thread is interrupted, it is cancelled.
            what: Its name, for an error.

        Raises:
            MisuseError: This is the thread itself (a RuntimeError).
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise MisuseError(INSIDE.format(what=what))
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def post(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something in the loop without waiting."""
        try:
            asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the loop is closed: nothing is left to do
            work.close()

    def at_end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call something in the loop before it ends."""
        self._closers.append(close)

    def close(self) -> None:
        """End all runs, and the thread. What does not end in time ends with the process."""
        ending = self._ending
        if ending is not None and self._thread.is_alive() and self.pid == os.getpid():
            self.loop.call_soon_threadsafe(ending.set)
            self._thread.join(GRACE)

    def _main(self) -> None:
        asyncio.run(self._live())  # at its end it cancels what is still running

    async def _live(self) -> None:
        self._ending = asyncio.Event()
        self._ready.set_result(asyncio.get_running_loop())
        await self._ending.wait()
        async with AsyncExitStack() as closing:  # all of them, although one fails
            for close in self._closers:
                closing.push_async_callback(close)


_lock = threading.Lock()
_current: LoopThread | None = None


def loop_thread() -> LoopThread:
    """The thread of this process; it begins when it is first asked for, and ends with the process."""
    global _current  # noqa: PLW0603 - there is one for the process
    with _lock:
        if _current is None or _current.pid != os.getpid():  # after a fork the thread is the parent's
            _current = LoopThread()
            # Before the pools of threads end, which closing a runtime needs; what `atexit` knows runs after that.
            at_end: Callable[..., object] = getattr(threading, "_register_atexit", atexit.register)
            at_end(_current.close)
        return _current


class RunResponseProtocol(Protocol):
    """The RFC's view of a run."""

    @property
    def events(self) -> Iterable[Event]:
        """Its events."""
        ...

    @property
    def messages(self) -> Sequence[Message]:
        """Its messages."""
        ...

    @property
    def summary(self) -> str:
        """Its result."""
        ...


class RunResponse:
    """A run. It goes on by itself in a thread of its own, with any number of readers of its events, or none.

    `events` may be read by any number, each from the start, while it goes on or when it is over; all see the same. Who
    leaves a loop only stops reading: `cancel` ends the run. `messages`, `summary`, `last_speaker`, `context_variables` and
    `cost` wait for its end, however it ends. Ctrl-C while this program waits ends a run of this process, and leaves one
    on the bus alone.

    Args:
        response: The same run for async programs.
        thread: Where it lives.
        is_here: Whether it is a run of this process.
    """

    def __init__(self, response: AsyncRunResponse, thread: LoopThread, *, is_here: bool) -> None:
        self.response = response
        self._thread = thread
        self._is_here = is_here

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.response.run_id

    # Reading

    @property
    def events(self) -> Generator[Event, None, None]:
        """All that happens, from the start to the end. Each use is a reading of its own."""
        return self.events_from(0)

    def events_from(self, number: int, *, drafts: bool = False) -> Generator[Event, None, None]:
        """The events behind one that is known; see `AsyncRunResponse.events_from`."""
        portions = self.response.source.read(number, drafts)
        try:
            while True:
                portion = self._wait(_next(portions), "reading events")
                if portion is None:
                    return
                for event in portion:
                    if is_question(event):
                        event.answered_by(self)
                    yield event
        finally:
            self._thread.post(portions.aclose())

    @property
    def messages(self) -> list[Message]:
        """Its messages."""
        return self._wait(_whole(self.response), "response.messages")

    @property
    def summary(self) -> str:
        """The text of the last message."""
        return self._wait(_awaited(self.response.summary), "response.summary")

    @property
    def last_speaker(self) -> str:
        """Who said it."""
        return self._wait(_awaited(self.response.last_speaker), "response.last_speaker")

    @property
    def context_variables(self) -> ContextVariables:
        """The context variables of its agents."""
        return self._wait(_awaited(self.response.context_variables), "response.context_variables")

    @property
    def cost(self) -> RunUsage:
        """The use of its models, for each agent and model, the choice of speakers included."""
        return self._wait(_awaited(self.response.cost), "response.cost")

    # Its end

    @property
    def state(self) -> RunState:
        """How it stands; see `AsyncRunResponse.state`."""
        return self._wait(_awaited(self.response.state), "response.state")

    def result(self) -> TaskResult:
        """Its result; waits for the end, and raises what `AsyncRunResponse.result` does."""
        return self._wait(self.response.result(), "response.result()")

    def wait(self) -> None:
        """Wait for the end, however it ends."""
        self._wait(self.response.wait(), "response.wait()")

    # Orders

    def respond(self, request_id: str, value: Any, *, by: str = "") -> None:
        """Answer a question; see `AsyncRunResponse.respond`."""
        self._thread.call(self.response.respond(request_id, value, by=by), "response.respond()")

    def answer(self, request_id: str, value: Any) -> None:
        """The same, for events."""
        self.respond(request_id, value)

    async def a_answer(self, request_id: str, value: Any) -> None:
        """The same, for events in async programs."""
        self.respond(request_id, value)

    def cancel(self) -> None:
        """End it now; nothing more is said in it. Nothing is done when it is over."""
        self._thread.call(self.response.cancel(), "response.cancel()")

    def pause(self) -> bool:
        """Let no agent begin to speak until `resume`; False when nothing changed."""
        return self._thread.call(self.response.pause(), "response.pause()")

    def resume(self) -> bool:
        """Let it go on; False when it was not paused."""
        return self._thread.call(self.response.resume(), "response.resume()")

    def step(self) -> bool:
        """Let the next turn begin; see `AsyncRunResponse.step`."""
        return self._thread.call(self.response.step(), "response.step()")

    def export(self) -> Cassette:
        """A run with `record=True` as a cassette; see `AsyncRunResponse.export`."""
        return self._wait(self.response.export(), "response.export()")

    def fork(self, conversation: str = "", *, at: int | None = None) -> str:
        """Make another conversation of what was said up to a turn; see `AsyncRunResponse.fork`."""
        return self._thread.call(self.response.fork(conversation, at=at), "response.fork()")

    def _wait(self, work: Coroutine[Any, Any, T], what: str) -> T:
        try:
            return self._thread.call(work, what)
        except KeyboardInterrupt:
            # Nothing else could end it: the program that began it was interrupted.
            if self._is_here:
                self.cancel()
            raise


async def _next(portions: Any) -> Sequence[Event] | None:
    return await anext(portions, None)


async def _awaited(value: Awaitable[T]) -> T:
    return await value


async def _whole(response: AsyncRunResponse) -> list[Message]:
    return await response.messages


class _Events(Protocol):
    @property
    def events(self) -> Iterable[Event]:
        """Its events."""
        ...


class _AsyncEvents(Protocol):
    @property
    def events(self) -> AsyncIterable[Event]:
        """Its events."""
        ...


def process_run_response(run_response: _Events, processor: EventProcessorProtocol) -> None:
    """Hand the events of a run to a processor, one after the other, until the run has ended.

    Args:
        run_response: What `run` returned, or anything with events.
        processor: Has a method for each type of events.

    Raises:
        DeclarationError: It has no method for one of the RFC's types (a TypeError).
    """
    for event in run_response.events:
        event.process(processor)


async def a_process_run_response(run_response: _AsyncEvents, processor: AsyncEventProcessorProtocol) -> None:
    """The same for async programs."""
    async for event in run_response.events:
        await event.a_process(processor)
