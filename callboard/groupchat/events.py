"""Events of a group chat, the stream that shows them, and the answers of people and of async functions."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from callboard.foundation.tasks import run_in_loop

from .messages import Message

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine.

    Where an event loop runs in this thread, such as in a function that a running chat calls, the coroutine gets a
    thread of its own, and the caller's loop waits.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_in_loop(work)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, run_in_loop, work).result()


async def value_of(answer: Any) -> Any:
    """The result of a function that may be async."""
    return await answer if inspect.isawaitable(answer) else answer


@dataclass(frozen=True)
class ChatEvent:
    """The base of the events.

    Attributes:
        type: The kind, by AG2's name.
    """

    type: ClassVar[str] = "event"

    @property
    def text(self) -> str:
        """For people."""
        return self.type


@dataclass(frozen=True)
class TextEvent(ChatEvent):
    """A message was said."""

    type: ClassVar[str] = "text"

    sender: str
    recipient: str
    message: Message

    @property
    def text(self) -> str:
        """The message under the names."""
        return f"{self.sender} (to {self.recipient}):\n\n{self.message.get('content')}\n"


@dataclass(frozen=True)
class TerminationEvent(ChatEvent):
    """The chat is over."""

    type: ClassVar[str] = "termination"

    termination_reason: str
    sender: str
    recipient: str = ""

    @property
    def text(self) -> str:
        """The reason."""
        return f">>>>>>>> TERMINATING RUN: {self.termination_reason}"


@dataclass(frozen=True)
class GroupChatRunChatEvent(ChatEvent):
    """Whose turn it is."""

    type: ClassVar[str] = "group_chat_run_chat"

    speaker: str

    @property
    def text(self) -> str:
        """The name."""
        return f"Next speaker: {self.speaker}"


@dataclass(frozen=True)
class GroupChatResumeEvent(ChatEvent):
    """A chat goes on."""

    type: ClassVar[str] = "group_chat_resume"

    last_speaker_name: str
    events: Sequence[Message] = field(default_factory=list)

    @property
    def text(self) -> str:
        """How many messages there are, and who said the last one."""
        return (
            f"Resuming a chat of {len(self.events)} messages; the last one is from {self.last_speaker_name}."
        )


@dataclass(frozen=True)
class ClearAgentsHistoryEvent(ChatEvent):
    """Histories were cleared."""

    type: ClassVar[str] = "clear_agents_history"

    agent: str | None
    nr_events_to_preserve: int | None

    @property
    def text(self) -> str:
        """Whose, and what is left."""
        kept = f" except for the last {self.nr_events_to_preserve}" if self.nr_events_to_preserve else ""
        return f"Cleared the history of {self.agent or 'all agents'}{kept}."


@dataclass(frozen=True)
class HistoryNotClearedEvent(ChatEvent):
    """The words "clear history" name no agent of the group.

    Attributes:
        reason: For people.
    """

    type: ClassVar[str] = "history_not_cleared"

    reason: str

    @property
    def text(self) -> str:
        """The reason."""
        return self.reason


@dataclass(frozen=True)
class SelectSpeakerEvent(ChatEvent):
    """A person is asked who speaks next."""

    type: ClassVar[str] = "select_speaker"

    agents: Sequence[str]

    @property
    def text(self) -> str:
        """The names with their numbers."""
        lines = [f"{number}: {name}" for number, name in enumerate(self.agents, 1)]
        return "\n".join(["Who speaks next?", *lines])


@dataclass(frozen=True)
class SelectSpeakerInvalidInputEvent(ChatEvent):
    """The person's answer is no number of the list."""

    type: ClassVar[str] = "select_speaker_invalid_input"

    agents: Sequence[str]

    @property
    def text(self) -> str:
        """The numbers that are valid."""
        return f"Invalid input. Please enter a number between 1 and {len(self.agents)}."


@dataclass(frozen=True)
class SelectSpeakerTryCountExceededEvent(ChatEvent):
    """The person was asked often enough."""

    type: ClassVar[str] = "select_speaker_try_count_exceeded"

    try_count: int
    agents: Sequence[str]

    @property
    def text(self) -> str:
        """How often."""
        return f"No speaker was chosen in {self.try_count - 1} attempts."


@dataclass(frozen=True)
class SpeakerAttemptEvent(ChatEvent):
    """A model was asked who speaks next; shown with `select_speaker_auto_verbose`.

    Attributes:
        attempt: Its number, from 1.
        attempts: How many there may be.
        answer: What the model said.
        mentions: The names in it.
    """

    type: ClassVar[str] = "speaker_attempt"

    attempt: int
    attempts: int
    answer: str
    mentions: Sequence[str]

    @property
    def text(self) -> str:
        """The outcome."""
        outcome = (
            f"selected {self.mentions[0]}"
            if len(self.mentions) == 1
            else f"names {len(self.mentions)} agents"
        )
        return f">>>>>>>> Select speaker attempt {self.attempt} of {self.attempts}: {self.answer!r} {outcome}"


class IOStream:
    """The terminal. Derive from it for another place, and make it the default with `set_default`.

    `input` may be async in a subclass; here it waits in a thread.
    """

    _default: ClassVar[contextvars.ContextVar[IOStream]] = contextvars.ContextVar("callboard_io_stream")

    def send(self, event: ChatEvent) -> None:
        """Show an event."""
        print(event.text)

    async def input(self, prompt: str) -> str:
        """Ask the person at the other end."""
        return await asyncio.to_thread(input, prompt)

    @staticmethod
    def get_default() -> IOStream:
        """The one in force here; the terminal, if none was set."""
        found = IOStream._default.get(None)
        return IOStream() if found is None else found

    @staticmethod
    @contextmanager
    def set_default(stream: IOStream) -> Iterator[None]:
        """Make it the one in force in a ``with`` block, for all that is called in it."""
        token = IOStream._default.set(stream)
        try:
            yield
        finally:
            IOStream._default.reset(token)


def is_given() -> bool:
    """Whether another stream than the terminal is in force."""
    return IOStream._default.get(None) is not None


async def ask_person(prompt: str) -> str:
    """The answer of a person; also where `input` of a stream is no async function."""
    answer: str = await value_of(IOStream.get_default().input(prompt))
    return answer
