"""Console: a run on a terminal, and its questions put to the person there."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import json
import os
import shutil
import sys
import time
import unicodedata
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

from callboard.agents.base import Response, Said, TaskResult, call, takes_token
from callboard.agents.user_proxy import AsyncInputFunc, InputFuncType, InputRequestContext
from callboard.core.answers import answer_of, how_to_answer
from callboard.core.cancellation import CancellationToken
from callboard.foundation.tasks import in_thread
from callboard.foundation.texts import one_line, printable, shell_line
from callboard.memory.llm_messages import Image
from callboard.messages.chat import MultiModalMessage
from callboard.messages.events import (
    AttemptEndedEvent,
    InputAnsweredEvent,
    InputRequestedEvent,
    MemoryQueryEvent,
    ModelClientStreamingChunkEvent,
    SelectSpeakerEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    UserInputRequestedEvent,
)
from callboard.models.types import ENDED, ENDINGS, RequestUsage
from callboard.teams.member import OMITTED

from .errors import DeclarationError, InputError

__all__ = ["Console", "UserInputManager"]


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
    stdout has no reader any more, the run goes on in silence. Texts of several speakers at once get a heading with each
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
        DeclarationError: It was given what `run` returns, or the stream had none (a TypeError and a ValueError).
        Exception: What the stream raises.
    """
    _check_stream(stream)
    page = Page()
    with_images = page.shows_images and not no_inline_images
    answering = ConsoleQuestions(page, answers, by, read)
    show: _Show[ResultT] = _Show(page, output_stats, with_images, user_input_manager, answering)
    try:
        async with aclosing(stream) as items:
            async for item in items:
                await show.item(item)
    finally:
        await answering.close()
        await page.end_line()
    if show.last is None:
        raise DeclarationError("No TaskResult or Response was processed: the stream has to end with one.")
    return show.last


def _check_stream(given: object) -> None:
    if isinstance(given, Coroutine):
        given.close()
    if not hasattr(given, "__aiter__"):
        raise DeclarationError(
            "Console shows a run as it goes on: give it team.run_stream(task=...), without `await`, "
            f"and not a {type(given).__name__}"
        )


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
        answering: ConsoleQuestions,
    ) -> None:
        self.last: ResultT | None = None
        self._page = page
        self._has_stats = has_stats
        self._with_images = with_images
        self._input_manager = input_manager
        self._answering = answering
        self._began = time.monotonic()
        self._made: list[datetime] = []  # when the first message was made, and the last one
        self._usages: dict[str, RequestUsage] = {}  # by the messages' ids
        self._streamed: _Streamed | None = None

    async def item(self, item: Said | ResultT) -> None:
        """Show one item of the stream."""
        match item:
            case TaskResult():
                self.last = item
                await self._summary("messages", len(item.messages), [f"Finish reason: {item.stop_reason}"])
            case Response():
                self.last = item
                await self._said(item.chat_message, item.chat_message.source)
                await self._summary("inner messages", len(item.inner_messages or ()), [])
            case UserInputRequestedEvent():
                await self._page.end_line()
                if self._input_manager is not None:
                    self._input_manager.notify_event_received(item.request_id)
            case InputRequestedEvent():
                await self._answering.asked(item)
            case InputAnsweredEvent():
                await self._answering.ended(item)
            case ModelClientStreamingChunkEvent():
                await self._piece(item)
            case AttemptEndedEvent():
                await self._ended(item)
            case _:
                await self._said(item, _title(item))

    async def _piece(self, piece: ModelClientStreamingChunkEvent) -> None:
        if self._streamed is None or not self._streamed.goes_on_with(piece):
            await self._page.heading(_title(piece))
            self._streamed = _Streamed(piece)
        self._streamed.text += piece.content
        await self._page.piece(printable(piece.content))

    async def _said(self, message: Said, title: str) -> None:
        self._made = [*self._made[:1], message.created_at]
        streamed, self._streamed = self._streamed, None
        if streamed is not None and streamed.is_all_of(message):
            await self._page.end_line()
        else:
            await self._page.heading(title)
            await self._page.lines(text_of(message, with_images=self._with_images))
        if ending := ENDINGS.get(message.metadata.get(ENDED, "")):
            await self._page.lines(f"({ending})")
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
            f"Duration: {self._seconds():.2f} seconds",
        ]
        await self._page.lines("\n".join(lines))

    def _seconds(self) -> float:
        """How long it has taken, also where it had begun, or ended, before this page was opened."""
        shown = time.monotonic() - self._began
        return max(shown, (self._made[-1] - self._made[0]).total_seconds()) if self._made else shown


def _title(message: Said) -> str:
    return f"{type(message).__name__} ({message.source})"


RULE: Final = "-" * 10
ELLIPSIS: Final = "…"
WIDE: Final = "WF"  # of east_asian_width: two columns
GONE: Final = (errno.EPIPE, errno.EIO, errno.EBADF)


class Page:
    """Stdout, written by threads: a slow reader holds up the run that is shown, and not the event loop.

    When it has no reader any more (a pipe that was left, a terminal that was closed), or there is no stdout, nothing is
    written, and the run goes on.
    """

    def __init__(self) -> None:
        self._is_gone = False
        self._is_in_line = False

    @property
    def shows_images(self) -> bool:
        """Whether it is a terminal that shows pictures as iTerm2 does."""
        return os.environ.get("TERM_PROGRAM") == "iTerm.app" and _prints_to_terminal()

    async def heading(self, title: str) -> None:
        """Begin a new part; the title is cut where a terminal is too narrow for it."""
        room = _columns() - 2 * len(RULE) - 2
        await self.lines(f"{RULE} {_cut(one_line(title), room)} {RULE}")

    async def lines(self, text: str) -> None:
        """Write whole lines.

        Args:
            text: Without control characters but ends of lines and tabs, unless they are meant.
        """
        await self.end_line()
        await self._write(f"{text}\n")

    async def piece(self, text: str) -> None:
        """Go on with the line."""
        await self._write(text)
        if text:
            self._is_in_line = not text.endswith("\n")

    async def end_line(self) -> None:
        """End the line, if one has begun."""
        if self._is_in_line:
            await self.piece("\n")

    async def _write(self, text: str) -> None:
        # `sys.stdout` is None where there is no console at all, whatever its type says.
        if text and not self._is_gone and getattr(sys, "stdout", None) is not None:
            self._is_gone = not await in_thread("callboard-console", lambda: _print(text))


def _print(text: str) -> bool:
    """Whether there was a reader."""
    out = sys.stdout
    if out.closed:
        return False
    encoding = out.encoding or "utf-8"
    try:
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        out.flush()
    except OSError as error:
        if error.errno not in GONE:
            raise
        return False
    return True


def _prints_to_terminal() -> bool:
    return getattr(sys, "stdout", None) is not None and not sys.stdout.closed and sys.stdout.isatty()


def _columns() -> int:
    return shutil.get_terminal_size().columns if _prints_to_terminal() else sys.maxsize


def _cut(text: str, columns: int) -> str:
    """A text that takes at most so many columns, and at least one."""
    if sum(map(_width, text)) <= columns:
        return text
    kept, room = "", columns - len(ELLIPSIS)
    for char in text:
        room -= _width(char)
        if room < 0:
            break
        kept += char
    return kept + ELLIPSIS


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in WIDE else 1


ITERM_IMAGE: Final = "\033]1337;File=inline=1:{data}\a"


def text_of(message: Said, *, with_images: bool = False) -> str:
    """A message as a person reads it.

    Args:
        message: A chat message or an event.
        with_images: Show pictures as iTerm2 does, instead of `<image>`.
    """
    if isinstance(message, MultiModalMessage):
        return "\n".join(_part(part, with_images) for part in message.content)
    word = _WORDS.get(type(message))
    return printable(message.to_text() if word is None else word(message))


def usage_of(usage: RequestUsage) -> str:
    """Tokens of one message."""
    return f"[Prompt tokens: {usage.prompt_tokens}, Completion tokens: {usage.completion_tokens}]"


def _part(part: str | Image, with_images: bool) -> str:
    if isinstance(part, str):
        return printable(part)
    if not with_images or part.data is None or not _is_base64(part.data):
        return "<image>"
    return ITERM_IMAGE.format(data=part.data)


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    return True


def _calls(event: ToolCallRequestEvent) -> str:
    return "\n".join(f"{call.name}({one_line(call.arguments)})" for call in event.content)


def _results(event: ToolCallExecutionEvent) -> str:
    return "\n".join(
        f"{result.name}{' failed' if result.is_error else ''}: {result.content}" for result in event.content
    )


def _memories(event: MemoryQueryEvent) -> str:
    return "\n".join(str(found.content) for found in event.content)


def _speakers(event: SelectSpeakerEvent) -> str:
    return ", ".join(event.content)


_WORDS: Final[Mapping[type[Any], Callable[[Any], str]]] = {
    ToolCallRequestEvent: _calls,
    ToolCallExecutionEvent: _results,
    MemoryQueryEvent: _memories,
    SelectSpeakerEvent: _speakers,
}

CUT: Final = "…?"  # the end of a question that is too long for a line


class Answers(Protocol):
    """Takes answers: a `TeamClient`, or `runtime.inputs`."""

    async def answer(self, input_id: str, value: Any, /, *, by: str = "") -> None:
        """Answer a question.

        Raises:
            InputError: It can't be answered, or not like this.
        """
        ...


class ConsoleQuestions:
    """Shows questions, and hands on what is typed. One question at a time is put; a line answers the one it was put for.

    Args:
        page: The console.
        answers: Takes the answers; None: questions are shown only.
        by: Who answers.
        read: Reads a line, and may block; None: from stdin, if that is a terminal.
    """

    def __init__(self, page: Page, answers: Answers | None, by: str, read: Callable[[], str] | None) -> None:
        self._page = page
        self._answers = answers if read is not None or _reads_from_terminal() else None
        self._by = by
        self._read = read or _typed
        self._waiting: deque[InputRequestedEvent] = deque()
        self._over: set[str] = set()  # ids of questions
        self._work: asyncio.Task[None] | None = None

    async def asked(self, event: InputRequestedEvent) -> None:
        """Show a question, and put it."""
        to = f" (to {', '.join(event.to)})" if event.to else ""
        how = how_to_answer(event.choices, event.answer_schema, event.details)
        await self._page.heading(f"{type(event).__name__} ({event.source})")
        await self._page.lines(printable(event.content))
        if event.content.endswith(CUT):
            # Who allows something has to see all of it.
            await self._page.lines(_all_of(event))
        await self._page.lines(one_line(f"[{event.request_id}]{to} {how}"))
        self._waiting.append(event)
        if self._answers is not None and (self._work is None or self._work.done()):
            self._work = asyncio.ensure_future(self._put_all(self._answers))

    async def ended(self, event: InputAnsweredEvent) -> None:
        """Show what came of a question."""
        self._over.add(event.request_id)
        by = f" by {event.by}" if event.by else ""
        text = f": {event.content}" if event.content else ""
        await self._page.lines(one_line(f"[{event.request_id}] {event.status}{by}{text}"))

    async def close(self) -> None:
        """End the question; a line that is still typed is lost. Raises what went wrong."""
        if self._work is None:
            return
        if self._work.done():
            await self._work
            return
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)

    async def _put_all(self, answers: Answers) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            if self._read is _typed:
                _forget_typed()
            while event.request_id not in self._over:
                line = await in_thread("callboard-answer", self._read)
                if not line:
                    return  # the end of the input
                if line.strip():
                    await self._answer(answers, event, line.strip())

    async def _answer(self, answers: Answers, event: InputRequestedEvent, text: str) -> None:
        try:
            value = answer_of(text, event.request_id, event.choices, event.answer_schema, event.details)
            await answers.answer(event.request_id, value, by=self._by)
            self._over.add(event.request_id)
        except InputError as error:
            await self._page.lines(one_line(str(error)))


def _all_of(event: InputRequestedEvent) -> str:
    if event.details.get(OMITTED):
        command = shell_line("callboard", "runs", "answer", event.request_id)
        return f"(it is too large to be shown here: `{command}` shows all of it)"
    return printable(json.dumps(event.details, ensure_ascii=False, indent=2))


def _typed() -> str:
    return sys.stdin.readline()


def _forget_typed() -> None:
    """Drop input that was typed before a question was put: it is no answer to it."""
    with contextlib.suppress(ImportError, OSError):  # no terminal, or none that can forget
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _reads_from_terminal() -> bool:
    # `sys.stdin` is None where there is no console at all, whatever its type says.
    stdin = getattr(sys, "stdin", None)
    return stdin is not None and not stdin.closed and bool(stdin.isatty())


class UserInputManager:
    """Holds a question back until the Console has come to it.

    ```python
    manager = UserInputManager(input)
    human = UserProxyAgent("human", input_func=manager.get_wrapped_callback())
    ...
    await Console(team.run_stream(task="..."), user_input_manager=manager)
    ```

    Agent and Console have to be in one process. AutoGen's waits for ever when the Console comes to a question before the
    agent asks it.

    Args:
        callback: Asks the person; see UserProxyAgent.
    """

    def __init__(self, callback: InputFuncType) -> None:
        self.callback = callback
        self._shown: dict[str, asyncio.Event] = {}

    def get_wrapped_callback(self) -> AsyncInputFunc:
        """The `input_func` for a UserProxyAgent."""

        async def ask(prompt: str, cancellation_token: CancellationToken | None) -> str:
            request_id = InputRequestContext.request_id()
            try:
                await self._event(request_id).wait()
            finally:
                self._shown.pop(request_id, None)
            args = (prompt, cancellation_token) if takes_token(self.callback) else (prompt,)
            return await call(self.callback, *args, token=cancellation_token)

        return ask

    def notify_event_received(self, request_id: str) -> None:
        """The Console has come to a question.

        Args:
            request_id: Of its UserInputRequestedEvent.
        """
        self._event(request_id).set()

    def _event(self, request_id: str) -> asyncio.Event:
        return self._shown.setdefault(request_id, asyncio.Event())
