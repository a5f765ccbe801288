"""A run as async programs see it: under way or over, in this process or on the bus."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Protocol, TypeVar

from callboard.agents.task import TaskResult
from callboard.groupchat.context_variables import ContextVariables
from callboard.models.run_usage import RunUsage

from .errors import LoopError
from .event import Event
from .events import AgentMessageEvent, Message, is_question
from .so_far import SoFar
from .source import RunSource, RunState

T = TypeVar("T")


class AsyncRunResponseProtocol(Protocol):
    """The RFC's view of a run for async programs."""

    @property
    def events(self) -> AsyncIterator[Event]:
        """What happens."""
        ...

    @property
    def messages(self) -> Any:
        """What is said."""
        ...

    @property
    def summary(self) -> Awaitable[str]:
        """What came of it."""
        ...


class AsyncRunResponse:
    """A run. It goes on by itself, whoever reads its events, and whether anybody does.

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
                without the mark when they count. In this process every event counts at once.
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
        """What was said: ``await response.messages``, or ``async for message in response.messages``."""
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
        """What the agents know besides."""
        return self._told(lambda so_far: so_far.context_variables)

    @property
    def cost(self) -> Awaitable[RunUsage]:
        """What its models used, for each agent and model, the choice of speakers included."""
        return self._cost()

    async def so_far(self) -> SoFar:
        """What was said until now."""
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
        """What came of it; waits for the end.

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
            InputWithdrawnError: Nobody waits for it any more.
            InputValueError: It can't be answered with this (a ValueError).
        """
        await self.source.answer(request_id, value, by)

    async def a_answer(self, request_id: str, value: Any) -> None:
        """The same, for events."""
        await self.source.answer(request_id, value, "")

    def answer(self, request_id: str, value: Any) -> None:
        """Not here: an event of an async run is answered with `a_respond`.

        Raises:
            LoopError: Always (a RuntimeError).
        """
        raise LoopError("event.respond()", "the run is async; use `await event.a_respond(...)`")

    async def cancel(self) -> None:
        """End it now; nothing more is said in it. Nothing is done when it is over."""
        await self.source.cancel()

    async def pause(self) -> bool:
        """Let nobody begin to speak until `resume`; False when nothing changed."""
        return await self.source.pause()

    async def resume(self) -> bool:
        """Let it go on; False when it was not paused."""
        return await self.source.resume()

    async def step(self) -> bool:
        """Let the next turn begin of a run with `step=True` that nobody reads; False when it does not wait for that."""
        return await self.source.step()


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
