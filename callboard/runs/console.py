"""Shows a run on a terminal, and asks the person in front of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from callboard.core.answers import answer_of
from callboard.errors import InputValueError
from callboard.foundation.tasks import in_thread
from callboard.foundation.texts import one_line, printable

from .events import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    ErrorEvent,
    InputRequestEvent,
    InputResponseEvent,
    OutputEvent,
    StreamEvent,
    SystemEvent,
    UsageEvent,
)

if TYPE_CHECKING:
    from rich.console import Console

QUIET: Final = "dim"


class ConsoleProcessor:
    """Shows the events of a run on stdout, for `process_run_response` and `a_process_run_response`.

    Control characters in what is said are shown as text. A question is asked until its answer is taken.

    Args:
        console: Where to show it; None: a console of its own on stdout.
        ask: Asks the person: gets the prompt, and returns the answer. Async runs call it in a thread.
    """

    def __init__(self, console: Console | None = None, *, ask: Callable[[str], str] = input) -> None:
        from rich.console import Console

        self._console = console or Console(highlight=False)
        self._ask = ask
        self._piece = False

    def process_agent_message_event(self, event: AgentMessageEvent) -> None:
        """Who, and what."""
        self._line(f"{event.message.get('sender', event.source)}:", "bold")
        self._line(str(event.message.get("text", "")), many=True)

    def process_input_request_event(self, event: InputRequestEvent) -> None:
        """Ask."""
        while True:
            try:
                return event.respond(_answer(event, self._ask(self._prompt(event))))
            except InputValueError as error:
                self._line(str(error), "red")

    def process_input_response_event(self, event: InputResponseEvent) -> None:
        """The answer was typed here, or somewhere else."""
        self._line(f"({event.by or 'answer'}: {event.text})", QUIET)

    def process_output_event(self, event: OutputEvent) -> None:
        """The text of an output event."""
        self._line(event.value, many=True)

    def process_system_event(self, event: SystemEvent) -> None:
        """A line of its own, for all other types as well."""
        self._line(event.value, QUIET)

    def process_stream_event(self, event: StreamEvent) -> None:
        """A piece of a text, behind the one before."""
        self._console.print(printable(event.content), end="", markup=False)
        self._piece = True

    def process_usage_event(self, event: UsageEvent) -> None:
        """Not shown."""

    def process_error_event(self, event: ErrorEvent) -> None:
        """The text of an error event."""
        self._line(event.text, "red")

    # For async runs

    async def a_process_async_input_request_event(self, event: AsyncInputRequestEvent) -> None:
        """Ask, in a thread."""
        prompt = self._prompt(event)
        while True:
            try:
                typed = await in_thread("callboard-input", lambda: self._ask(prompt))
                return await event.a_respond(_answer(event, typed))
            except InputValueError as error:
                self._line(str(error), "red")

    async def a_process_agent_message_event(self, event: AgentMessageEvent) -> None:
        """See above."""
        self.process_agent_message_event(event)

    async def a_process_input_response_event(self, event: InputResponseEvent) -> None:
        """See above."""
        self.process_input_response_event(event)

    async def a_process_output_event(self, event: OutputEvent) -> None:
        """See above."""
        self.process_output_event(event)

    async def a_process_system_event(self, event: SystemEvent) -> None:
        """See above."""
        self.process_system_event(event)

    async def a_process_stream_event(self, event: StreamEvent) -> None:
        """See above."""
        self.process_stream_event(event)

    async def a_process_usage_event(self, event: UsageEvent) -> None:
        """Not shown."""

    async def a_process_error_event(self, event: ErrorEvent) -> None:
        """See above."""
        self.process_error_event(event)

    def _prompt(self, event: InputRequestEvent | AsyncInputRequestEvent) -> str:
        choices = f" [{'/'.join(event.choices)}]" if event.choices else ""
        return f"{one_line(event.prompt)}{choices} "

    def _line(self, text: str, style: str | None = None, *, many: bool = False) -> None:
        if self._piece:
            self._console.print()
            self._piece = False
        self._console.print(printable(text) if many else one_line(text), style=style, markup=False)


def _answer(event: InputRequestEvent | AsyncInputRequestEvent, typed: str) -> Any:
    return answer_of(typed, event.request_id, event.choices, event.answer_schema, event.details)
