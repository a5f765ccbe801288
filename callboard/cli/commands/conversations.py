"""`callboard conversations`: what was said; and `callboard forget`: all that there is of a customer goes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import FAILED, CommandFailed, bad_use
from callboard.cli.options import (
    AsJson,
    Namespace,
    OptionalTarget,
    Url,
    command,
    positive_duration as past,
    split_names,
)
from callboard.cli.output import clock, hint, print_json, say, say_facts, say_table, to_json
from callboard.cli.sessions import run, runs_at
from callboard.foundation.texts import one_line

if TYPE_CHECKING:
    from callboard.broker.redis.operations.conversations import Conversation, Utterance
    from callboard.broker.redis.operations.forgetting import Forgotten
    from callboard.runtime.runtime import RedisAgentRuntime

    from .memory import MemoryLocation

conversations = typer.Typer(
    help="Conversations: what was said, and deleting one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Named = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODULE:APP] CONVERSATION",
        help="The app, for its namespace; then the id, as `conversations list` shows it.",
    ),
]
OfTeam = Annotated[
    str | None, typer.Option("--team", metavar="TYPE", help="Only of this team or agent type.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


def list_them(
    target: OptionalTarget = None,
    team: OfTeam = None,
    since: Annotated[
        float | None,
        typer.Option(parser=past, metavar="TIME", help="Only those spoken in within this time: 30m, 2h, 1d."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Most to show.")] = 50,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """List conversations, the one that was spoken in last first.

    They are kept as long as the state of their agent; runs, which are kept for days, are not needed. It shows conversations
    of teams and group chats, memories of roles, and logs called `thread` of agents of your own.

      callboard conversations list poets:app --since 1d
      callboard conversations list --namespace poems --team poets --json

    Exit codes: 0 listed, 2 wrong use, 3 no server.
    """

    async def read() -> list[Conversation]:
        from callboard.broker.redis.operations.conversations import conversations as found

        async with runs_at(target, url, namespace) as runtime:
            return await found(runtime.transport, agent_type=team)

    found = run(read())
    if since is not None:
        begin = datetime.now(UTC) - timedelta(seconds=since)
        found = [one for one in found if one.last_at is not None and one.last_at >= begin]
    if as_json:
        print_json(found[:limit])
    elif not found:
        say("no conversations" if (team, since) == (None, None) else "no such conversations")
    else:
        header = ("CONVERSATION", "OF", "MESSAGES", "LAST", "BY")
        say_table(header, [_row(one) for one in found[:limit]])
    if found[limit:]:
        hint(f"there are {len(found) - limit} more: --limit {limit * 10} shows more")


def _row(one: Conversation) -> tuple[object, ...]:
    return (
        one.key,
        one.agent_type,
        one.items,
        clock(one.last_at) if one.last_at else None,
        one.last_by or None,
    )


def show(
    names: Named,
    team: OfTeam = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only so many at its end.")] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Also what happened on the way, such as calls of tools.")
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show what was said in a conversation, oldest first.

      callboard conversations show support:app customer-17
      callboard conversations show --namespace support customer-17 --team desk --last 20 --events

    Exit codes: 0 shown, 1 there is no such conversation, 2 wrong use, 3 no server.
    """
    for number, (one, said) in enumerate(_read(names, team, last, url, namespace)):
        if number:
            say()
        say(f"{one.agent_type}/{one.key}: {one.items} messages and events")
        for each in said:
            if each.is_said or events:
                _say(each)


def _say(said: Utterance) -> None:
    when = f"{clock(said.at)}  " if said.at else ""
    kind = "" if said.is_said else f" ({said.kind})"
    say(f"\n{when}{one_line(said.by) or '-'}{kind}")
    say(said.text)


def export(
    names: Named,
    team: OfTeam = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to. Default: stdout.")
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Write a conversation as JSON lines: each message and event as it is stored, with its type, key and number.

      callboard conversations export support:app customer-17 > customer-17.jsonl

    Exit codes: 0 written, 1 there is no such conversation, 2 wrong use, 3 no server.
    """
    lines = [
        to_json(
            {"type": one.agent_type, "key": one.key, "number": each.number, "item": each.data}, indent=None
        )
        for one, said in _read(names, team, None, url, namespace)
        for each in said
    ]
    if output is None:
        for line in lines:
            say(line)
    else:
        output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="backslashreplace")


def _read(
    names: list[str], team: str | None, last: int | None, url: str | None, namespace: str | None
) -> list[tuple[Conversation, list[Utterance]]]:
    target, key = _named(names)

    async def read() -> list[tuple[Conversation, list[Utterance]]]:
        from callboard.broker.redis.operations.conversations import conversations as found, utterances

        async with runs_at(target, url, namespace) as runtime:
            transport = runtime.transport
            return [
                (one, [said async for said in utterances(transport, one, last=last)])
                for one in await found(transport, agent_type=team, key=key)
            ]

    read_ones = run(read())
    if not read_ones:
        raise _unknown(key)
    return read_ones


def _unknown(key: str) -> CommandFailed:
    return CommandFailed(
        f"there is no conversation {key!r}: `callboard conversations list` shows them", FAILED
    )


def _named(names: list[str]) -> tuple[str | None, str]:
    # An id may look like module:app; alone it is no app.
    target, rest = (None, names) if len(names) == 1 else split_names(names)
    if len(rest) != 1:
        bad_use("give an app or --namespace, and one id, as `callboard conversations list` shows it")
    return target, rest[0]


def delete(
    names: Named, team: OfTeam = None, yes: Yes = False, url: Url = None, namespace: Namespace = None
) -> None:
    """Delete a conversation of a team: what was said, what its members remember, its runs and its questions.

    It shows what there is, and asks. What else there is of the id, such as states of other agents, stays: `callboard forget`
    deletes all of it. A run that is under way is refused: cancel it first.

      callboard conversations delete support:app customer-17 --team desk

    Exit codes: 0 deleted, 1 it is not there, or works at the moment, 2 wrong use, 3 no server.
    """
    target, key = _named(names)

    async def work() -> Forgotten | None:
        from callboard.broker.redis.operations.agent_types import type_records
        from callboard.broker.redis.operations.conversations import conversations as found

        async with runs_at(target, url, namespace) as runtime:
            of = {one.agent_type for one in await found(runtime.transport, agent_type=team, key=key)}
            if not of:
                return None
            known = [one.type for one in await type_records(runtime.transport, None)]
            types = {name for name in known if name in of or name.partition(".")[0] in of}
            return await _forgotten(runtime, key, types, of, yes)

    if run(work()) is None:
        raise _unknown(key)
    say(f"{key} is deleted")


def forget(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODULE:APP] KEY", help="The app, for its namespace and its memory; then the key."
        ),
    ],
    yes: Yes = False,
    search: Annotated[
        bool, typer.Option(help="Read the whole namespace for where the key is named besides.")
    ] = True,
    memory: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A store of memories that no service has.")
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Delete all that there is of a customer, or another key.

    That is everything that agents with this key have and were sent: states and logs (conversations among them), messages,
    dead letters, delayed messages, questions, runs, records, what models used, and memories. It shows what there is, and
    asks; without a terminal it needs --yes. Handlers of the key end first, and what comes later begins anew. Then it says
    where else the key is named, such as in what another agent has written down: that is for you to look at.

      callboard forget support:app customer-17
      callboard forget --namespace support customer-17 --memory .callboard/memory --yes

    Not reached: backups and the server's file until it is written anew, logs and cassettes of yours, and makers of models.
    Exit codes: 0 deleted, and named nowhere else; 1 named elsewhere, or a handler does not end; 2 wrong use, 3 no server.
    """
    target, key = _named(names)

    async def work() -> dict[str, int]:
        from callboard.broker.redis.operations.forgetting import named_in

        async with runs_at(target, url, namespace) as runtime:
            memories = _Memories(target, memory, url, runtime.transport.keys.namespace, key)
            await _forgotten(runtime, key, None, None, yes, memories)
            return await named_in(runtime.transport, key) if search else {}

    left = run(work())
    say(f"{key} is forgotten")
    if left:
        for name, count in sorted(left.items()):
            say(f"  {name}: {count} times")
        raise CommandFailed(
            "the key is still named in these places, which belong to others: look at them", FAILED
        )


class _Memories:
    """Memories of the agents of a key: those of an app's service, and of a folder."""

    def __init__(
        self, target: str | None, folder: Path | None, url: str | None, namespace: str, key: str
    ) -> None:
        self._target = target
        self._folder = folder
        self._url = url
        self._namespace = namespace
        self._key = key

    async def found(self) -> dict[str, int]:
        """How many there are, by the agent that remembers."""
        location = self._location("default")
        if location is None:
            return {}
        async with location.opened() as memory:
            stats = await memory.all_stats()
        return {
            one.agent: one.count
            for one in stats
            if one.agent is not None
            and one.namespace in (None, self._namespace)
            and (one.agent == self._key or one.agent.endswith(f"/{self._key}"))
        }

    async def clear(self, agents: Collection[str]) -> None:
        """Forget what these agents remember."""
        for agent in agents:
            if (location := self._location(agent)) is not None:
                async with location.opened() as memory:
                    await memory.clear()

    async def write_anew(self) -> None:
        """Leave nothing of what was forgotten in the file of the store, also of an attempt that was interrupted."""
        from callboard.memory.chroma_index import write_anew
        from callboard.memory_service import folder_of_service
        from callboard.process.loader import load_app

        from .memory import service_of

        location = self._location("default")
        if location is None:
            return
        folder = location.path
        if folder is None and location.target is not None:
            app = load_app(location.target)
            folder = folder_of_service(app[service_of(app)])
        if folder is None or not await asyncio.to_thread(write_anew, folder):
            hint(
                "what was remembered is deleted, and its text may be in the file of the memories until that is written "
                "anew: run `chroma vacuum --path FOLDER` where it is"
            )

    def _location(self, agent: str) -> MemoryLocation | None:
        from callboard.memory_service import MemoryService
        from callboard.process.loader import load_app

        from .memory import MemoryLocation

        if self._folder is not None:
            return MemoryLocation(None, self._folder, None, self._url, self._namespace, agent)
        if self._target is None:
            return None
        app = load_app(self._target)
        if not any(issubclass(one.agent_class, MemoryService) for one in app.declarations):
            return None
        return MemoryLocation(self._target, None, None, self._url, self._namespace, agent)


async def _forgotten(
    runtime: RedisAgentRuntime,
    key: str,
    types: set[str] | None,
    teams: set[str] | None,
    yes: bool,
    memories: _Memories | None = None,
) -> Forgotten:
    """Show what goes, ask, and delete it: of agents of these types, runs of these teams; None: of all."""
    from callboard.broker.redis.operations.forgetting import KeyBusyError, find, forget as forget_key
    from callboard.teams import list_runs
    from callboard.teams.loop import takes_of

    runs = [
        one
        for one in await list_runs(runtime, conversation=key, limit=1_000_000)
        if teams is None or one.team in teams
    ]
    working = [one.run_id for one in runs if one.ended is None]
    if working:
        raise CommandFailed(f"the run {working[0]} has not ended: `callboard runs cancel` it first", FAILED)
    remembered = {} if memories is None else await memories.found()
    counts = {**(await find(runtime.transport, key, types)).counts, "runs": len(runs)}
    if memories is not None:
        counts["memories"] = sum(remembered.values())
    if not yes:
        say_facts({name: str(count) for name, count in counts.items()})
        if not sys.stdin.isatty():
            bad_use("nothing was deleted: add --yes")
        typer.confirm(f"Delete all of this of {one_line(key)}?", abort=True)
    if memories is not None:
        await memories.clear(remembered)
        await memories.write_anew()
    for one in runs:
        await runtime.delete_run(one.stream)
        await runtime.delete_run(takes_of(one.stream))
    try:
        return await forget_key(runtime.transport, key, types)
    except KeyBusyError as error:
        raise CommandFailed(str(error), FAILED) from error


command(conversations, "list", list_them)
command(conversations, "show", show)
command(conversations, "export", export)
command(conversations, "delete", delete)
