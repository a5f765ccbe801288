"""`callboard status`: the state of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url
from callboard.cli.output import ago, duration, print_json, say, say_table, say_text, size
from callboard.cli.sessions import run, seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callboard.broker.redis.operations.views import AgentTypeView, KeyView, Overview

HEADER = (
    *("TYPE", "WORKERS", "WAITING", "OLDEST", "RUNNING", "BACKOFF", "DONE", "RETRIED"),
    *("DEAD NOW", "DEAD EVER"),
)
OPTIONAL = ("DEAD EVER", "RETRIED", "BACKOFF")  # what a terminal of 60 or 80 columns goes without


def status(
    target: OptionalTarget = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Show the agents for whom most messages wait instead.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="With --keys: agents of each type.")] = 10,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Show agent types, workers and what waits.

    WAITING is everything that was published to a type, is due and was not handled, without what handlers run: that is
    RUNNING, as of the workers' last heartbeats. OLDEST says how long the oldest of it has waited, BACKOFF how many agents
    wait for their next attempt. DEAD NOW are the dead letters that are there, DEAD EVER those that were ever written.
    WAITING is `-` where the server does not know it. A narrow terminal goes without some columns. docs/monitoring.md
    shows the same with redis-cli.

      callboard status counting:app
      callboard status counting:app --keys
      callboard status --url redis://10.0.0.5:6379 --namespace counting --json

    Exit codes: 0 shown, 2 wrong use or no such namespace, 3 no server.
    """
    view, hot = run(_look(target, url, namespace, limit if keys else 0))
    if as_json:
        print_json(hot if keys else view)
    elif keys:
        show_keys(view, hot)
    else:
        show(view)


async def _look(
    target: str | None, url: str | None, namespace: str | None, limit: int
) -> tuple[Overview, Sequence[KeyView]]:
    from callboard.broker.redis.operations.hottest import hottest
    from callboard.broker.redis.operations.inspect import overview

    async with seen(target, url, namespace) as transport:
        view = await overview(transport, ages=True)
        return view, await hottest(transport, n=limit) if limit else ()


def show(view: Overview) -> None:
    """Prints it for people."""
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
                    *(one.name, " ".join(one.types), one.held, one.running),
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


def show_keys(view: Overview, keys: Sequence[KeyView]) -> None:
    """Prints the agents for whom most waits."""
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
    return (
        *(one.type, one.workers, one.waiting, ago(one.oldest, now), one.running, one.backing_off),
        *(one.done, one.retried, one.dead, one.died),
    )


def _next_due(view: Overview) -> str:
    if view.next_due is None:
        return ""
    return f"; the next is due in {duration(max(0, view.next_due - view.at) / 1000)}"
