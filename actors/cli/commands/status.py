"""`callboard status`: the state of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url
from callboard.cli.output import duration, print_json, say, say_table
from callboard.cli.sessions import overview_of, run

if TYPE_CHECKING:
    from callboard.broker.redis.operations.inspect import Overview

HEADER = ("TYPE", "WORKERS", "QUEUED", "RUNNING", "BACKOFF", "DONE", "RETRIED", "DEAD")


def status(
    target: OptionalTarget = None, url: Url = None, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """Show agent types, workers and the backlog.

    QUEUED is `-` where the server does not know it. docs/monitoring.md shows the same with redis-cli.

      callboard status counting:app
      callboard status --url redis://10.0.0.5:6379 --namespace counting --json
    """
    view = run(overview_of(target, url, namespace))
    if as_json:
        print_json(view)
    else:
        show(view)


def show(view: Overview) -> None:
    """Prints it for people."""
    say(f"namespace {view.namespace}")
    if not view.types:
        say(
            "Nothing is declared in it yet: start an app with `callboard up`, or check --namespace and --url."
        )
        return
    say_table(
        HEADER,
        [
            (one.type, one.workers, one.queued, one.running, one.backing_off, one.done, one.retried, one.dead)
            for one in view.types
        ],
    )
    say()
    if view.workers:
        say_table(
            ("WORKER", "TYPES", "HOLDS", "RUNNING", "LEASE", "UP"),
            [
                (
                    *(one.name, " ".join(one.types), one.held, one.running),
                    *(f"{one.lease_ms_left / 1000:.1f} s", duration((view.at - one.started) / 1000)),
                )
                for one in view.workers
            ],
        )
        for one in view.workers:
            if (blocked := one.blocked) is not None:
                ago = duration((view.at - blocked.at) / 1000)
                say(f"blocked: {one.name} for {duration(blocked.seconds)}, {ago} ago: {blocked.what}")
    else:
        say("no workers: start some with `callboard up` or `callboard worker`")
    for pause in view.paused:
        by = f" by {pause.by}" if pause.by else ""
        say(f"paused: {pause.kind} {pause.name}, {duration((view.at - pause.since) / 1000)} ago{by}")
    if view.timers:
        due = (
            ""
            if view.next_due is None
            else f", the next in {duration(max(0, view.next_due - view.at) / 1000)}"
        )
        say(f"{view.timers} timers{due}")
