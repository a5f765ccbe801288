"""`callboard pause` and `callboard resume`: agents and topics whose messages wait for now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import bad_use
from callboard.cli.options import Namespace, Url, split_names
from callboard.cli.output import say
from callboard.cli.sessions import check_topic, check_type, control_of, operator, run

if TYPE_CHECKING:
    from callboard.broker.redis.client.transport import RedisTransport

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODULE:APP] [TYPE | TYPE/KEY]...",
        help="The app, for its namespace; then agent types, or single agents.",
    ),
]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic; may be given again.")
]


def pause(
    names: Names = None,
    topic: Topics = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Interrupt what runs as well; it begins again after `resume`. Not for topics."
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Pause agent types, single agents, or topics.

    Running handlers finish; with --now they are interrupted, nothing of them is committed, and they begin again later, where
    results that `ctx.once` recorded are not made again. Messages are kept, and handled in their order after `callboard
    resume`. It holds for every worker, also for those that start later. `callboard status` shows what is paused.

      callboard pause counting:app counter
      callboard pause counting:app counter/ada --topic visits
      callboard pause --namespace counting counter --now

    Exit codes: 0 paused, 2 wrong use, or one of them does not exist: then nothing is paused; 3 no server.
    """
    if now and topic:
        bad_use("--now is for agents: give it without --topic")
    _act(names or [], topic or [], url, namespace, is_pause=True, now=now)


def resume(names: Names = None, topic: Topics = None, url: Url = None, namespace: Namespace = None) -> None:
    """Resume agent types, agents or topics that were paused.

    The messages that were kept meanwhile are handled in their order.

      callboard resume counting:app counter
      callboard resume counting:app counter/ada --topic visits
    """
    _act(names or [], topic or [], url, namespace, is_pause=False)


def _act(
    names: list[str],
    topics: list[str],
    url: str | None,
    namespace: str | None,
    *,
    is_pause: bool,
    now: bool = False,
) -> None:
    target, agents = split_names(names)
    if not agents and not topics:
        bad_use("say what: an agent type, an agent as TYPE/KEY, or --topic TOPIC")

    async def work() -> None:
        async with operator(target, url, namespace) as transport:
            if is_pause:
                await _check(transport, agents, topics)
            for name in agents:
                _tell(name, await _agent(transport, name, is_pause, now), is_pause)
            for topic in topics:
                _tell(f"topic {topic}", await _topic(transport, topic, is_pause), is_pause)

    run(work())


async def _check(transport: RedisTransport, agents: list[str], topics: list[str]) -> None:
    """Refuses what does not exist, before anything is paused."""
    for name in agents:
        await check_type(transport, name.partition("/")[0])
    for topic in topics:
        await check_topic(transport, topic)


async def _agent(transport: RedisTransport, name: str, is_pause: bool, now: bool) -> bool:
    from callboard.broker import AgentId

    control, what = control_of(transport), AgentId.from_str(name) if "/" in name else name
    changed = await (control.pause(what, now=now) if is_pause else control.resume(what))
    if not changed:
        await check_type(transport, name.partition("/")[0])
    return changed


async def _topic(transport: RedisTransport, topic: str, is_pause: bool) -> bool:
    control = control_of(transport)
    changed = await (control.pause_topic if is_pause else control.resume_topic)(topic)
    if not changed:
        await check_topic(transport, topic)
    return changed


def _tell(name: str, changed: bool, is_pause: bool) -> None:
    if is_pause:
        say(f"{name} is paused" if changed else f"{name} was paused already")
    else:
        say(f"{name} goes on" if changed else f"{name} was not paused")
