"""What programs and handlers write to the streams of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from callboard.broker import MessageRegistry
from callboard.broker.encoding.limits import Limits
from callboard.broker.ids import check_text
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.runs import RunWrite
from callboard.errors import SettingValueError

from .execution import running
from .run_events import encoded_event
from .runs import MOST_RUN_ID

MOST_TAG: Final = 128  # characters; every draft carries it


class Drafts(NamedTuple):
    """Which of the events are drafts, and what becomes of those that are there.

    Attributes:
        tag: of these events; "" when they are none.
        settles: drafts whose tags begin with this are removed; "" for none.
        since: number from which on these may stand.
    """

    tag: str = ""
    settles: str = ""
    since: int = 0

    def check(self) -> None:
        """Refuses what can't be written.

        Raises:
            SettingValueError: a tag is too long, or `since` is no number.
            InvalidIdError: a tag is no text.
        """
        for what, text in (("tag", self.tag), ("settles", self.settles)):
            if len(check_text(what, text)) > MOST_TAG:
                raise SettingValueError(what, repr(text[:MOST_TAG]), f"at most {MOST_TAG} characters")
        if self.since < 0:
            raise SettingValueError("since", repr(self.since), "a whole number, 0 or more")


NO_DRAFTS: Final = Drafts()


class RunWriting:
    """Writes events at once, or with the commit of the handler that is under way.

    Args:
        transport: the connection to the server.
        registry: message classes.
    """

    def __init__(self, transport: RedisTransport, registry: MessageRegistry) -> None:
        settings = transport.settings
        self._transport = transport
        self._registry = registry
        # Found once: it takes longer to find what settings say than to write an event.
        self._limits = Limits.of(settings)
        self._most = settings.run_events
        self._kept_for = int(settings.run_retention * 1000)

    def is_for(self, transport: RedisTransport | None) -> bool:
        """Whether it writes by this connection."""
        return self._transport is transport

    async def write(self, run: str, events: Sequence[Any], drafts: Drafts, now: bool) -> int:
        """See RuntimeRuns.write_run."""
        transport, registry, limits = self._transport, self._registry, self._limits
        if drafts is not NO_DRAFTS:
            drafts.check()
        encoded = [encoded_event(event, registry, limits) for event in events]
        tag, settles, since = drafts
        fence, execution = None, running(transport)
        if now and execution is not None:
            fence = execution.fence
        write = RunWrite(check_run(run), encoded, self._most, self._kept_for, tag, settles, since, fence)
        if not encoded and not settles:
            return 0
        # guard: what a handler writes to a run waits for its commit
        if execution is not None and not now:
            execution.events.append(write)
            return 0
        return await transport.runs.write(write)


def check_run(run: str) -> str:
    """An id of a run, as it may be.

    Raises:
        SettingValueError: it is empty or too long.
        InvalidIdError: it is no text.
    """
    if not 0 < len(check_text("id of a run", run)) <= MOST_RUN_ID:
        raise SettingValueError("run_id", repr(run[:MOST_RUN_ID]), f"1 to {MOST_RUN_ID} characters")
    return run
