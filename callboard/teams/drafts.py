"""What a member lets be seen while it speaks: written to the run's stream at once, and void when its process dies."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final

from callboard.agents.task import Said

from .orders import Shown
from .sizes import parts_of

if TYPE_CHECKING:
    from callboard.protocol import AgentRuntime

ATTEMPT_BYTES: Final = 8  # of the name of an attempt
MOST_WAITING: Final = 1000  # pieces of a member that is faster than the server


def tag_of(turn: tuple[int, ...]) -> str:
    """What the drafts of a turn, and of the turns inside it, are tagged with."""
    return "".join(f"{number}." for number in turn)


class Drafts:
    """The drafts of one attempt at a turn.

    The first piece leaves at once; what comes while it is on its way leaves together.

    Args:
        runtime: Writes to the run's stream.
        run: Id of the run.
        turn: The turn, as a path.
        source: Who speaks.

    Attributes:
        attempt: Name of the attempt.
        first: Number of the first draft in the stream; 0: there is none.
    """

    def __init__(self, runtime: AgentRuntime, run: str, turn: tuple[int, ...], source: str) -> None:
        self.attempt = secrets.token_hex(ATTEMPT_BYTES)
        self._runtime = runtime
        self._run = run
        self._turn = turn
        self._source = source
        self._waiting: list[Said] = []
        self._writing: asyncio.Task[None] | None = None
        self.first = 0

    async def show(self, message: Said) -> None:
        """Lets readers see something.

        Raises:
            FencedError: Another worker has the turn.
        """
        self._waiting.append(message)
        if self._writing is None or self._writing.done() or len(self._waiting) > MOST_WAITING:
            await self.flush()
            self._writing = asyncio.ensure_future(self._write())

    async def flush(self) -> None:
        """Waits until all of it was written; raises what went wrong."""
        if self._writing is not None:
            await self._writing

    async def close(self) -> None:
        """Nothing more is written."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        while self._waiting:
            messages, self._waiting = self._waiting, []
            shown = [
                Shown(turn=self._turn, source=self._source, attempt=self.attempt, messages=part)
                for part in parts_of(messages)
            ]
            number = await self._runtime.write_run(self._run, shown, tag=tag_of(self._turn), now=True)
            self.first = self.first or number
