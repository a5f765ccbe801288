"""Questions of a run, put to whoever sits at the console."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from callboard.errors import InputError
from callboard.foundation.printable import one_line, printable
from callboard.foundation.threads import in_thread
from callboard.messages.events import InputAnsweredEvent, InputRequestedEvent
from callboard.teams.shown_questions import OMITTED
from callboard.tools.answers import answer_of, how_to_answer

from .page import Page

CUT: Final = "…?"  # the end of a question that is too long for a line


class Answers(Protocol):
    """Takes answers: a `TeamClient`, or `runtime.inputs`."""

    async def answer(self, input_id: str, value: Any, /, *, by: str = "") -> None:
        """Answer a question.

        Raises:
            InputError: It can't be answered, or not like this.
        """
        ...


class Answering:
    """Shows questions, and hands on what is typed. One question at a time is put; a line answers the one it was put for.

    Args:
        page: The console.
        answers: Takes the answers; None: questions are shown only.
        by: Who answers.
        read: Reads a line, and may block; None: from stdin, if that is a terminal.
    """

    def __init__(self, page: Page, answers: Answers | None, by: str, read: Callable[[], str] | None) -> None:
        self._page = page
        self._answers = answers if read is not None or _is_terminal() else None
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
        """Nobody is asked any more; a line that is still typed is lost. Raises what went wrong."""
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
        return (
            f"(it is too large to be shown here: `callboard runs answer {event.request_id}` shows all of it)"
        )
    return printable(json.dumps(event.details, ensure_ascii=False, indent=2))


def _typed() -> str:
    return sys.stdin.readline()


def _forget_typed() -> None:
    """What was typed before a question was put is no answer to it."""
    with contextlib.suppress(ImportError, OSError):  # no terminal, or none that can forget
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _is_terminal() -> bool:
    # `sys.stdin` is None where there is no console at all, whatever its type says.
    stdin = getattr(sys, "stdin", None)
    return stdin is not None and not stdin.closed and bool(stdin.isatty())
