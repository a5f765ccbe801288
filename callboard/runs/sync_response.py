"""A run as programs see it that are not async."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from callboard.agents.task import TaskResult
from callboard.groupchat.context_variables import ContextVariables
from callboard.models.run_usage import RunUsage

from .event import Event
from .events import Message, is_question
from .loop_thread import LoopThread
from .response import AsyncRunResponse
from .source import RunState

T = TypeVar("T")


class RunResponseProtocol(Protocol):
    """The RFC's view of a run."""

    @property
    def events(self) -> Iterable[Event]:
        """What happens."""
        ...

    @property
    def messages(self) -> Sequence[Message]:
        """What was said."""
        ...

    @property
    def summary(self) -> str:
        """What came of it."""
        ...


class RunResponse:
    """A run. It goes on by itself in a thread of its own, whoever reads its events, and whether anybody does.

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
        """What was said."""
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
        """What the agents know besides."""
        return self._wait(_awaited(self.response.context_variables), "response.context_variables")

    @property
    def cost(self) -> RunUsage:
        """What its models used, for each agent and model, the choice of speakers included."""
        return self._wait(_awaited(self.response.cost), "response.cost")

    # Its end

    @property
    def state(self) -> RunState:
        """How it stands; see `AsyncRunResponse.state`."""
        return self._wait(_awaited(self.response.state), "response.state")

    def result(self) -> TaskResult:
        """What came of it; waits for the end, and raises what `AsyncRunResponse.result` does."""
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
        """Let nobody begin to speak until `resume`; False when nothing changed."""
        return self._thread.call(self.response.pause(), "response.pause()")

    def resume(self) -> bool:
        """Let it go on; False when it was not paused."""
        return self._thread.call(self.response.resume(), "response.resume()")

    def step(self) -> bool:
        """Let the next turn begin; see `AsyncRunResponse.step`."""
        return self._thread.call(self.response.step(), "response.step()")

    def _wait(self, work: Coroutine[Any, Any, T], what: str) -> T:
        try:
            return self._thread.call(work, what)
        except KeyboardInterrupt:
            # Nobody else could end it: the program that began it was interrupted.
            if self._is_here:
                self.cancel()
            raise


async def _next(portions: Any) -> Sequence[Event] | None:
    return await anext(portions, None)


async def _awaited(value: Awaitable[T]) -> T:
    return await value


async def _whole(response: AsyncRunResponse) -> list[Message]:
    return await response.messages
