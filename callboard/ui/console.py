"""Shows a run on the console."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from callboard.agents.chat_agent import Response
from callboard.agents.task import Said, TaskResult
from callboard.foundation.printable import one_line, printable
from callboard.messages.events import (
    AttemptEndedEvent,
    InputAnsweredEvent,
    InputRequestedEvent,
    ModelClientStreamingChunkEvent,
    UserInputRequestedEvent,
)
from callboard.models.types import RequestUsage

from .answering import Answering, Answers
from .errors import NoResultError, NotAStreamError
from .input_manager import UserInputManager
from .page import Page
from .wording import text_of, usage_of

ResultT = TypeVar("ResultT", bound=TaskResult | Response)

SUMMARY: Final = "Summary"


async def Console(  # noqa: N802 - AutoGen's name
    stream: AsyncGenerator[Said | ResultT, None],
    *,
    no_inline_images: bool = False,
    output_stats: bool = False,
    user_input_manager: UserInputManager | None = None,
    answers: Answers | None = None,
    by: str = "",
    read: Callable[[], str] | None = None,
) -> ResultT:
    """Show a run on stdout as it goes on: who says what, calls of tools, texts while they are made.

    Control characters in what is said are shown as JSON writes them, so that nothing of it changes the terminal. Where
    nobody reads stdout any more, the run goes on in silence. Texts of several speakers at once get a heading with each
    change of the speaker; AutoGen mixes them, and leaves out whatever comes right after a streamed text.

    Args:
        stream: What `run_stream` of a team or an agent, or `on_messages_stream` of an agent yields. It is closed.
        no_inline_images: Don't show pictures, where the terminal can (iTerm2).
        output_stats: Show how many tokens each message used, and a summary.
        user_input_manager: Told when the run asks a person.
        answers: Gets what is typed for questions that wait on the bus, such as approvals: the `TeamClient`, or
            `runtime.inputs`. None: they are only shown.
        by: Who types.
        read: Reads a line; it may block, and "" is the end of the input. None: from stdin, if that is a terminal; else
            questions are only shown.

    Returns:
        The last TaskResult or Response.

    Raises:
        NotAStreamError: It was given what `run` returns (a TypeError).
        NoResultError: There was none (a ValueError).
        Exception: What the stream raises.
    """
    _check_stream(stream)
    page = Page()
    with_images = page.shows_images and not no_inline_images
    answering = Answering(page, answers, by, read)
    show: _Show[ResultT] = _Show(page, output_stats, with_images, user_input_manager, answering)
    try:
        async with aclosing(stream) as items:
            async for item in items:
                await show.item(item)
    finally:
        await answering.close()
        await page.end_line()
    if show.last is None:
        raise NoResultError
    return show.last


def _check_stream(given: object) -> None:
    if isinstance(given, Coroutine):
        given.close()
    if not hasattr(given, "__aiter__"):
        raise NotAStreamError(type(given).__name__)


class _Streamed:
    """A text that is being shown piece by piece."""

    def __init__(self, first: ModelClientStreamingChunkEvent) -> None:
        self.source = first.source
        self.message_id = first.full_message_id
        self.text = ""

    def goes_on_with(self, piece: ModelClientStreamingChunkEvent) -> bool:
        return (piece.source, piece.full_message_id) == (self.source, self.message_id)

    def is_all_of(self, message: Said) -> bool:
        return message.source == self.source and message.to_text() == self.text


class _Show(Generic[ResultT]):
    """One run on a page.

    Attributes:
        last: The last result.
    """

    def __init__(
        self,
        page: Page,
        has_stats: bool,
        with_images: bool,
        input_manager: UserInputManager | None,
        answering: Answering,
    ) -> None:
        self.last: ResultT | None = None
        self._page = page
        self._has_stats = has_stats
        self._with_images = with_images
        self._input_manager = input_manager
        self._answering = answering
        self._began = time.monotonic()
        self._usages: dict[str, RequestUsage] = {}  # by the messages' ids
        self._streamed: _Streamed | None = None

    async def item(self, item: Said | ResultT) -> None:
        """Show one item of the stream."""
        if isinstance(item, TaskResult):
            self.last = item
            await self._summary("messages", len(item.messages), [f"Finish reason: {item.stop_reason}"])
        elif isinstance(item, Response):
            self.last = item
            await self._said(item.chat_message, item.chat_message.source)
            await self._summary("inner messages", len(item.inner_messages or ()), [])
        elif isinstance(item, UserInputRequestedEvent):
            await self._page.end_line()
            if self._input_manager is not None:
                self._input_manager.notify_event_received(item.request_id)
        elif isinstance(item, InputRequestedEvent):
            await self._answering.asked(item)
        elif isinstance(item, InputAnsweredEvent):
            await self._answering.ended(item)
        elif isinstance(item, ModelClientStreamingChunkEvent):
            await self._piece(item)
        elif isinstance(item, AttemptEndedEvent):
            await self._ended(item)
        else:
            await self._said(item, _title(item))

    async def _piece(self, piece: ModelClientStreamingChunkEvent) -> None:
        if self._streamed is None or not self._streamed.goes_on_with(piece):
            await self._page.heading(_title(piece))
            self._streamed = _Streamed(piece)
        self._streamed.text += piece.content
        await self._page.piece(printable(piece.content))

    async def _said(self, message: Said, title: str) -> None:
        streamed, self._streamed = self._streamed, None
        if streamed is not None and streamed.is_all_of(message):
            await self._page.end_line()
        else:
            await self._page.heading(title)
            await self._page.lines(text_of(message, with_images=self._with_images))
        if message.models_usage is not None:
            self._usages[message.id] = message.models_usage
            if self._has_stats:
                await self._page.lines(usage_of(message.models_usage))

    async def _ended(self, event: AttemptEndedEvent) -> None:
        # What is void comes once more, and with it the tokens that it used.
        for message_id in event.void_ids:
            self._usages.pop(message_id, None)
        self._streamed = None
        await self._page.lines(one_line(f"({event.source} {event.content})"))

    async def _summary(self, what: str, count: int, more: Sequence[str]) -> None:
        if not self._has_stats:
            return
        used = sum(self._usages.values(), RequestUsage(0, 0))
        await self._page.heading(SUMMARY)
        lines = [
            f"Number of {what}: {count}",
            *(one_line(line) for line in more),
            f"Total prompt tokens: {used.prompt_tokens}",
            f"Total completion tokens: {used.completion_tokens}",
            f"Duration: {time.monotonic() - self._began:.2f} seconds",
        ]
        await self._page.lines("\n".join(lines))


def _title(message: Said) -> str:
    return f"{type(message).__name__} ({message.source})"
