"""The runs of a namespace, as a runtime writes and finds them: events at once or with a commit, drafts, their streams."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from callboard.broker.errors import CommandError, ServerUnavailableError, is_refused_right
from callboard.broker.ids import check_text
from callboard.broker.limits import Limits
from callboard.broker.outcome import RunWrite
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import RUNS, run as run_suffix
from callboard.errors import SettingValueError

from .effects import encoded_event
from .errors import RunRightsError
from .execution import MOST_RUN_ID, running
from .lifecycle import RuntimeConnection

if TYPE_CHECKING:
    from .run_history import ListedRun, RunEvents

MOST_TAG: Final = 128  # characters; every draft carries it
BEHIND_ALL: Final = "0-18446744073709551615"  # no entry of a run is there


class DraftMarks(NamedTuple):
    """Marks of a write: which of its events are drafts, and what becomes of those that are there.

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


NO_DRAFTS: Final = DraftMarks()


class RunStreams:
    """The part of a runtime that writes runs and finds them.

    Args:
        connection: opened when it is first needed.
    """

    def __init__(self, connection: RuntimeConnection) -> None:
        self._connection = connection
        self._may_read = False  # whether the server has let it
        # The connection that the next three were found for: it takes longer to find what settings say than to write.
        self._transport: RedisTransport | None = None
        self._limits = Limits()
        self._most = 0
        self._kept_for = 0

    async def write(
        self, run_id: str, events: Sequence[Any], tag: str, settles: str, since: int, now: bool
    ) -> int:
        """Writes events at once, or with the commit of the handler that is under way; see AgentRuntime.write_run."""
        transport = self._transport
        if transport is None or transport is not self._connection.transport:
            transport = await self._prepare()
        if tag or settles or since:
            DraftMarks(tag, settles, since).check()
        registry, limits = self._connection.local.registry, self._limits
        encoded = [encoded_event(event, registry, limits) for event in events]
        fence, execution = None, running(transport)
        if now and execution is not None:
            fence = execution.fence
        write = RunWrite(check_run(run_id), encoded, self._most, self._kept_for, tag, settles, since, fence)
        if not encoded and not settles:
            return 0
        # guard: what a handler writes to a run waits for its commit
        if execution is not None and not now:
            execution.events.append(write)
            return 0
        return await transport.runs.write(write)

    async def _prepare(self) -> RedisTransport:
        transport = self._transport = await self._connection.connected()
        settings = transport.settings
        self._limits = Limits.of(settings)
        self._most = settings.run_events
        self._kept_for = int(settings.run_retention * 1000)
        return transport

    def read(self, run_id: str, after: int, live: bool) -> RunEvents:
        """Reads the events of a run; see RedisAgentRuntime.read_run."""
        given: object = after
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise SettingValueError("after", repr(after), "a whole number, 0 or more")
        from .run_history import RunEvents

        connect, registry = partial(self._to_read, run_id), self._connection.local.registry
        reading = RunEvents(connect, registry, check_run(run_id), after, live)
        self._connection.readers.add(reading)
        return reading

    async def check_reading(self, run_id: str) -> None:
        """Refuses a user of the server who may not read a run: before it is begun, for which other rights are enough.

        Raises:
            RunRightsError: It may not (a PermissionError).
            ServerUnavailableError: No server answers.
        """
        await self._to_read(run_id)

    async def _to_read(self, run_id: str) -> RedisTransport:
        transport = await self._connection.connected()
        if not self._may_read:
            words = ("XREAD", "COUNT", 1, "STREAMS", transport.keys.of(run_suffix(run_id)), BEHIND_ALL)
            try:
                await transport.admin.command(*words)
            except ServerUnavailableError:
                return transport  # the reader waits for the server
            except CommandError as error:
                if is_refused_right(str(error)):
                    raise RunRightsError(str(error)) from error
            self._may_read = True
        return transport

    async def length(self, run_id: str) -> int:
        """How many entries the stream of a run has now, drafts included.

        Raises:
            SettingValueError: The id can't be one (a ValueError).
            ServerUnavailableError: No server answers.
        """
        suffix = run_suffix(check_run(run_id))
        transport = await self._connection.connected()
        return int(await transport.admin.command("XLEN", transport.keys.of(suffix)))

    async def delete(self, run_id: str) -> bool:
        """Removes the stream of a run; see RedisAgentRuntime.delete_run."""
        suffix = run_suffix(check_run(run_id))
        transport = await self._connection.connected()
        is_deleted = bool(await transport.admin.command("UNLINK", transport.keys.of(suffix)))
        await transport.admin.command("ZREM", transport.keys.of(RUNS), run_id)
        return is_deleted

    async def list(self, limit: int, before: str | ListedRun | None, begins_with: str) -> list[ListedRun]:
        """The runs whose streams are kept; see RedisAgentRuntime.list_runs."""
        from .run_history import listed_runs

        transport = await self._connection.connected()
        return await listed_runs(transport, self._connection.local.registry, limit, before, begins_with)


def check_run(run: str) -> str:
    """An id of a run, as it may be.

    Raises:
        SettingValueError: it is empty or too long.
        InvalidIdError: it is no text.
    """
    if not 0 < len(check_text("id of a run", run)) <= MOST_RUN_ID:
        raise SettingValueError("run_id", repr(run[:MOST_RUN_ID]), f"1 to {MOST_RUN_ID} characters")
    return run
