"""The part of the runtime that writes down what happens in a run, for everybody who reads along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from callboard.broker.errors import CommandError, ServerUnavailableError, is_refused_right
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import RUNS, run as run_suffix
from callboard.errors import SettingValueError

from .errors import RunRightsError
from .messages import RuntimeMessages
from .run_writing import NO_DRAFTS, Drafts, RunWriting, check_run

if TYPE_CHECKING:
    from .run_listing import ListedRun
    from .run_reading import RunReading

BEHIND_ALL: Final = "0-18446744073709551615"  # no entry of a run is there


class RuntimeRuns(RuntimeMessages):
    """A runtime as those see it who follow a piece of work."""

    _writing: RunWriting | None = None
    _reads_runs = False  # whether the server has let it

    async def write_run(
        self,
        run_id: str,
        events: Sequence[Any],
        *,
        tag: str = "",
        settles: str = "",
        since: int = 0,
        now: bool = False,
    ) -> int:
        """Adds events to the stream of a run; see AgentRuntime.write_run."""
        writing = self._writing
        if writing is None or not writing.is_for(self._transport):
            await self.open()
            writing = self._writing = RunWriting(self.transport, self.registry)
        drafts = Drafts(tag, settles, since) if tag or settles or since else NO_DRAFTS
        return await writing.write(run_id, events, drafts, now)

    def read_run(self, run_id: str, *, after: int = 0, live: bool = True) -> RunReading:
        """Reads the events of a run, from the first, or from a number on.

        ```python
        async for entry in runtime.read_run("research-17"):
            print(entry.number, entry.event)
        ```

        Args:
            run_id: Id of the run; it need not have begun.
            after: The number of the last entry that you have; 0: none.
            live: Wait for what comes, without end; False: end when everything that is there has been read.

        Returns:
            An asynchronous iterator of RunEntry, also to be used with ``async with``; see RunReading.

        Raises:
            SettingValueError: The id is empty or longer than 128 characters, or `after` is no number (a ValueError).
            RunRightsError: In the loop: the user of the server may not (a PermissionError).
        """
        given: object = after
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise SettingValueError("after", repr(after), "a whole number, 0 or more")
        from .run_reading import RunReading

        reading = RunReading(partial(self._to_read, run_id), self.registry, check_run(run_id), after, live)
        self._followings.add(reading)
        return reading

    async def check_reading(self, run_id: str) -> None:
        """Refuse a user of the server who may not read a run: before it is begun, for which other rights are enough.

        Raises:
            RunRightsError: It may not (a PermissionError).
            ServerUnavailableError: No server answers.
        """
        await self._to_read(run_id)

    async def _to_read(self, run_id: str) -> RedisTransport:
        transport = await self._connected()
        if not self._reads_runs:
            words = ("XREAD", "COUNT", 1, "STREAMS", transport.keys.of(run_suffix(run_id)), BEHIND_ALL)
            try:
                await transport.admin.command(*words)
            except ServerUnavailableError:
                return transport  # who reads waits for the server
            except CommandError as error:
                if is_refused_right(str(error)):
                    raise RunRightsError(str(error)) from error
            self._reads_runs = True
        return transport

    async def run_length(self, run_id: str) -> int:
        """How many entries the stream of a run has now, drafts included.

        Raises:
            SettingValueError: The id can't be one (a ValueError).
            ServerUnavailableError: No server answers.
        """
        key = await self._key_of(run_id)
        return int(await self.transport.admin.command("XLEN", key))

    async def delete_run(self, run_id: str) -> bool:
        """Removes the stream of a run; False when there is none. What is written to it later begins again at number 1.

        Raises:
            SettingValueError: The id can't be one (a ValueError).
            ServerUnavailableError: No server answers.
        """
        key = await self._key_of(run_id)
        is_deleted = bool(await self.transport.admin.command("UNLINK", key))
        await self.transport.admin.command("ZREM", self.transport.keys.of(RUNS), run_id)
        return is_deleted

    async def list_runs(
        self, *, limit: int = 100, before: str | ListedRun | None = None, begins_with: str = ""
    ) -> list[ListedRun]:
        """The runs whose streams are kept, the newest first, with the first and the last event of each.

        What a run is about and how it stands is in its events; `callboard.teams.list_runs` says it of the runs of teams.

        Args:
            limit: Most runs to return.
            before: A run, or its id: only those that began before it. The last one of a page gives the next page.
            begins_with: Only runs whose id begins like this, which are found without reading the others; "": all.

        Raises:
            SettingValueError: `before` is not in the list (a ValueError).
            ServerUnavailableError: No server answers.
        """
        from .run_listing import listed_runs

        await self.open()
        return await listed_runs(self.transport, self.registry, limit, before, begins_with)

    async def _key_of(self, run_id: str) -> str:
        suffix = run_suffix(check_run(run_id))
        await self.open()
        return self.transport.keys.of(suffix)
