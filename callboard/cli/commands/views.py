"""`callboard status`, `inspect`, `topics` and `tail`: how things stand, and what is published."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callboard.cli.exits import bad_use
from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url, split_names
from callboard.cli.output import (
    PatientPrinter,
    ago,
    duration,
    hint,
    print_json,
    say,
    say_facts,
    say_table,
    say_text,
    size,
    to_json,
)
from callboard.cli.sessions import check_type, looked_for, names_in, overview_of, run, seen
from callboard.foundation.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations.entries import StreamEntry
    from callboard.broker.redis.operations.views import AgentTypeView, AgentView, KeyView, Overview


HEADER = (
    *("TYPE", "WORKERS", "WAITING", "OLDEST", "RUNNING", "BACKOFF", "DONE", "RETRIED"),
    *("DEAD NOW", "DEAD EVER"),
)
OPTIONAL = ("DEAD EVER", "RETRIED", "BACKOFF")  # what a terminal of 60 or 80 columns goes without

All = Annotated[
    bool,
    typer.Option("--all", help="Show and count everything, which costs the server more with more of it."),
]


def status(
    target: OptionalTarget = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Show the agents for whom most messages wait instead.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="With --keys: agents of each type.")] = 10,
    everything: All = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Show agent types, workers and what waits.

    WAITING: due, and not started. RUNNING: in a handler, as of the workers' last heartbeats. OLDEST: how long the oldest
    that waits has waited. BACKOFF: agents that wait for their next attempt. DEAD NOW: dead letters that are there; DEAD
    EVER: those that were ever written. WAITING is `-` where the server does not know it, and `120+` where so much was
    counted and there is more. A narrow terminal goes without some columns. docs/monitoring.md shows the same with
    redis-cli.

      callboard status counting:app
      callboard status counting:app --all
      callboard status counting:app --keys
      callboard status --url redis://10.0.0.5:6379 --namespace counting --json

    Exit codes: 0 shown, 2 wrong use or no such namespace, 3 no server.
    """
    view, hot = run(_look_at_namespace(target, url, namespace, everything, limit if keys else 0))
    if as_json:
        print_json(hot if keys else view)
    elif keys:
        show_keys(view, hot)
    else:
        show_namespace(view)


async def _look_at_namespace(
    target: str | None, url: str | None, namespace: str | None, everything: bool, limit: int
) -> tuple[Overview, Sequence[KeyView]]:
    from callboard.broker.redis.operations.agents import hottest
    from callboard.broker.redis.operations.glance import glance
    from callboard.broker.redis.operations.inspect import overview

    async with seen(target, url, namespace) as transport:
        view = await (overview if everything else glance)(transport, ages=True)
        return view, await hottest(transport, n=limit) if limit else ()


def show_namespace(view: Overview) -> None:
    """Print a namespace for people."""
    say(f"namespace {view.namespace}")
    if not view.types:
        say_text("No agent type is declared in it yet: start an app with `callboard up`.")
        return
    say_table(HEADER, [_row(one, view.at) for one in view.types], OPTIONAL)
    say()
    if view.workers:
        say_table(
            ("WORKER", "TYPES", "HOLDS", "RUNNING", "LEASE", "UP"),
            [
                (
                    *(one.name, _some(one.types), one.held, one.running),
                    *(f"{one.lease_ms_left / 1000:.1f} s", ago(one.started, view.at)),
                )
                for one in view.workers
            ],
        )
        for one in view.workers:
            if (blocked := one.blocked) is not None:
                when = f"for {duration(blocked.seconds)}, {ago(blocked.at, view.at)} ago"
                say_text(f"blocked: {one.name} {when}: {blocked.what}")
    else:
        say_text("no workers: start some with `callboard up` or `callboard worker`")
    for outage in view.outages:
        since = ago(outage.since, view.at)
        say_text(
            f"waiting for an outage to end: {outage.type}, {outage.messages} for {since}: {outage.error}"
        )
    for pause in view.paused:
        by = f" by {pause.by}" if pause.by else ""
        since = ago(pause.since, view.at)
        say_text(
            f"paused: {pause.kind} {pause.name}, {f'{since} ago' if since else 'nobody knows since when'}{by}"
        )
    if view.totals.suspended:
        say_text(f"agents that wait for an answer: {view.totals.suspended}")
    if view.timers:
        backing_off = view.totals.backing_off
        say_text(f"delayed messages: {view.delayed}; agents that back off: {backing_off}{_next_due(view)}")
    _say_left_out(view)


def _say_left_out(view: Overview) -> None:
    """What there is besides, and how to see it. Streams and topics are not listed here anyway."""
    for number, what in (
        (view.left_out.types, "agent types"),
        (view.left_out.workers, "workers"),
        (view.left_out.pauses, "pauses"),
    ):
        if number:
            say_text(f"and {number:,} more {what}: --all")
    partly = [one.type for one in view.types if not one.counted]
    if partly:
        say_text(f"+: so much was counted, and there is more, of {_some(partly)}: --all counts everything")


MOST_TYPES = 8  # of a worker that are named


def _some(types: Sequence[str]) -> str:
    """The names, or the first of them and how many there are besides."""
    if len(types) <= MOST_TYPES:
        return " ".join(types)
    return f"{' '.join(types[:MOST_TYPES])} and {len(types) - MOST_TYPES} more"


def show_keys(view: Overview, keys: Sequence[KeyView]) -> None:
    """Print the agents for whom most messages wait."""
    say(f"namespace {view.namespace}")
    if not keys:
        say("nothing waits")
        return
    say_table(
        ("AGENT", "WAITING", "OLDEST", "RUNNING", "STATE"),
        [
            (
                *(f"{one.type}/{one.key}", one.waiting, ago(one.oldest, view.at)),
                *("yes" if one.running else None, size(one.state_bytes) if one.state_bytes else None),
            )
            for one in keys
        ],
    )
    say_text("callboard inspect TYPE/KEY says more about one of them")


def _row(one: AgentTypeView, now: int) -> tuple[object, ...]:
    waiting = one.waiting if one.counted or one.waiting is None else f"{one.waiting}+"
    return (
        *(one.type, one.workers, waiting, ago(one.oldest, now), one.running, one.backing_off),
        *(one.done, one.retried, one.dead, one.died),
    )


def _next_due(view: Overview) -> str:
    if view.next_due is None:
        return ""
    return f"; the next is due in {duration(max(0, view.next_due - view.at) / 1000)}"


MOST_SHOWN = 5  # delayed messages, or dead letters, in the output for people


def inspect(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[MODULE:APP] TYPE/KEY", help="The app, for its namespace; then the agent."),
    ],
    state: Annotated[
        bool, typer.Option("--state", help="Show its State as well, as JSON, without its logs.")
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Show what is known of one agent.

    Who holds it, what it runs and since when, what waits for it, its attempts, delayed messages, dead letters and
    pauses, and the size of its State.

      callboard inspect counting:app counter/default
      callboard inspect --namespace counting counter/default --state --json

    Exit codes: 0 shown, 2 wrong use or no such agent type, 3 no server.
    """
    from callboard.broker import AgentId

    target, rest = split_names(names)
    if len(rest) != 1:
        bad_use("say which agent, as TYPE/KEY, such as counter/default")
    agent_id = AgentId.from_str(rest[0] if "/" in rest[0] else f"{rest[0]}/default")
    where, view = run(_look_at_agent(agent_id.type, agent_id.key, state, target, url, namespace))
    if as_json:
        print_json(view)
    else:
        show_agent(view, state, where)


async def _look_at_agent(
    agent_type: str, key: str, state: bool, target: str | None, url: str | None, namespace: str | None
) -> tuple[str, AgentView]:
    from callboard.broker.redis.operations.agents import agent

    async with seen(target, url, namespace) as transport:
        await check_type(transport, agent_type)
        return transport.keys.namespace, await agent(transport, agent_type, key, state=state)


def show_agent(view: AgentView, with_state: bool, namespace: str) -> None:
    """Print an agent of a namespace for people."""
    say(f"{view.type}/{view.key}")
    say_facts(_facts(view, namespace))
    if with_state and view.state is not None:
        say(view.state)


def _facts(view: AgentView, namespace: str) -> dict[str, str]:
    facts = {
        "held by": view.holder or "no worker",
        "runs": _running(view) if view.begun else "nothing",
        "next": _running(view) if view.running and not view.begun else "",
        "waiting": f"{view.waiting}, the oldest for {ago(view.oldest, view.at)}" if view.waiting else "0",
        "attempts": f"{view.attempts} failed: {view.reason}" if view.attempts else "",
        "deaths": f"{view.deaths} of workers that held its first message among others" if view.deaths else "",
        "asks": "; ".join(_asked(view, namespace)),
        "expires" if view.suspended else "goes on": (
            f"in {duration(max(0, view.resumes - view.at) / 1000)}" if view.resumes else ""
        ),
        "paused": ", ".join(f"{one.kind} {one.name}" for one in view.paused),
        "delayed": _listed(
            [f"{one.message_type} in {duration(max(0, one.due - view.at) / 1000)}" for one in view.delayed]
        ),
        "dead": _listed(list(view.letters)),
        "state": _state(view),
        "logs": ", ".join(
            f"{name} {items:,} items, about {size(number)}" for name, (items, number) in view.logs.items()
        ),
        "asked": "also while it waits for a reply (reentrant)" if view.reentrant else "",
    }
    return {name: text for name, text in facts.items() if text}


def _asked(view: AgentView, namespace: str) -> list[str]:
    """What the agent waits for, with the command that answers where a person may."""
    return [
        f"{one.text}: {shell_line('callboard', 'runs', 'answer', '--namespace', namespace, name)} ANSWER"
        if one.is_for_people
        else one.text
        for name, one in view.questions.items()
    ] or (["and waits for the answer"] if view.suspended else [])


def _running(view: AgentView) -> str:
    if view.running is None:
        return "nothing"
    one = view.running
    since = "" if one.since is None else f", given to its worker {ago(one.since, view.at)} ago"
    return f"{one.type or 'a message that is gone'} {one.id} of {one.stream}{since}"


def _state(view: AgentView) -> str:
    if not view.state_version:
        return "none is stored"
    return f"{size(view.state_bytes)}, version {view.state_version}, written by {view.state_writer}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more


def topics(
    target: OptionalTarget = None,
    everything: All = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Show topics, their subscribers, and how far each has got.

    LENGTH includes handled messages that are kept. UNREAD and PENDING (given to a worker and not
    finished) are those of the subscriber. Of more than 50 topics 50 are shown, among them those with something unread.

      callboard topics counting:app
      callboard topics counting:app --all
      callboard topics --namespace counting --json
    """
    view = run(overview_of(target, url, namespace, everything=everything))
    if as_json:
        print_json(view.topics)
        if view.left_out.topics:
            hint(f"and {view.left_out.topics:,} more topics: --all")
        return
    if not view.topics:
        say(f"namespace {view.namespace} has no topics yet")
        return
    rows: list[tuple[object, ...]] = []
    for topic in view.topics:
        names = sorted({*topic.subscribers, *(group.type for group in topic.groups)}) or [""]
        groups = {group.type: group for group in topic.groups}
        for number, name in enumerate(names):
            group = groups.get(name)
            first = (topic.type, topic.length) if number == 0 else ("", None)
            rows.append(
                (*first, name, group and group.unread, group and group.pending, topic.last_id or None)
            )
    say_table(("TOPIC", "LENGTH", "SUBSCRIBER", "UNREAD", "PENDING", "LAST"), rows)
    if view.left_out.topics:
        say_text(f"and {view.left_out.topics:,} more topics: --all")


LONGEST = 400  # characters of a body in a line for people


def tail(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE:APP] [TOPIC]...", help="The app, for its namespace; then topics. Default: all."
        ),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the messages that are there already.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after so many messages.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show messages as they are published, decoded, until Ctrl-C.

    Agents still get every one of them. A message that can't be read is shown with the reason. A topic that does not
    exist yet is waited for.

      callboard tail counting:app
      callboard tail counting:app visits --from-start --limit 10 --json
      callboard tail visits --namespace counting
    """
    target, topics = split_names(names or [])
    run(_follow(target, topics, url, namespace, from_start, limit, as_json))


async def _follow(
    target: str | None,
    topics: list[str],
    url: str | None,
    namespace: str | None,
    from_start: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    from contextlib import aclosing

    from callboard.broker.redis.operations.entries import follow

    async with looked_for(target, url, namespace) as transport:
        await _say_what_is_missing(transport, topics)
        async with aclosing(follow(transport, topics, from_start)) as entries:
            printer, shown = PatientPrinter(), 0
            async for entry in entries:
                await printer.say(to_json(as_data(entry)) if as_json else as_line(entry))
                shown += 1
                if shown == limit:
                    return


async def _say_what_is_missing(transport: RedisTransport, topics: list[str]) -> None:
    from callboard.errors import did_you_mean

    known = await names_in(transport, "topics")
    for topic in topics:
        if topic not in known:
            hint(f"waiting for the topic {topic!r}, which does not exist yet. {did_you_mean(topic, known)}")


def as_data(entry: StreamEntry) -> dict[str, Any]:
    """An entry for programs."""
    data: dict[str, Any] = {"stream": entry.stream, "entry": entry.entry}
    if entry.envelope is None:
        fields = {name: value.decode(errors="replace") for name, value in entry.fields.items()}
        return {**data, "problem": entry.problem, "fields": fields}
    one = entry.envelope
    data |= {"id": one.id, "type": one.type, "key": one.key, "from": one.sender, "at": one.at}
    body, problem = _body(entry)
    return {**data, "problem": problem} if problem else {**data, "body": body}


def as_line(entry: StreamEntry) -> str:
    """An entry for people: time, topic, key, type, body, or where the bytes are that lie beside the stream."""
    from callboard.broker.envelope import shown

    ms = int(entry.entry.partition("-")[0])
    time = datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
    topic = entry.stream.removeprefix("topic:")
    if entry.envelope is None:
        return f"{time} {topic} unreadable: {entry.problem}"
    body, problem = _body(entry)
    text = f"unreadable: {problem}" if problem else to_json(body)
    if entry.envelope.claimed:
        text = shown(entry.envelope.body) or text
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}... ({len(text):,} characters; --json shows all)"
    sender = f" from {entry.envelope.sender}" if entry.envelope.sender else ""
    return f"{time} {topic}/{entry.envelope.key} {entry.envelope.type}{sender} {text}"


def _body(entry: StreamEntry) -> tuple[Any, str]:
    from callboard.broker.errors import DecodeError

    try:
        return entry.payload(), ""
    except DecodeError as error:
        return None, str(error)
