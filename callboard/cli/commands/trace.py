"""`callboard trace`: one run as a tree in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from callboard.cli.options import AsJson, Namespace, Url
from callboard.cli.output import clock, duration, print_json, say
from callboard.cli.sessions import run
from callboard.foundation.texts import one_line

from .runs import RunNames, chosen

if TYPE_CHECKING:
    from callboard.teams.trace import Span


def trace(names: RunNames, url: Url = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Show a run as a tree in time.

    It has the turns, attempts that died, calls of tools, questions, and teams inside of teams. A turn begins with what came
    before it in the run, or with the first that was seen of it.

      callboard trace poets:app 3f2a
      callboard trace first-line --namespace poems --json

    Exit codes: 0 shown, 1 there is no such run, 2 wrong use, 3 no server.
    """

    async def read() -> tuple[Span | None, datetime]:
        from callboard.teams.trace import RunTrace

        async with chosen(names, url, namespace) as (runtime, one):
            made = RunTrace()
            async for entry in runtime.read_run(one.stream, live=False):
                made.add(entry)
            seconds, micros = await runtime.transport.admin.command("TIME")
            return made.root, datetime.fromtimestamp(int(seconds) + int(micros) / 1e6).astimezone()

    root, now = run(read())
    if as_json:
        print_json(None if root is None else asdict(root))
    elif root is None:
        say("nothing of this run can be read here")
    else:
        say(f"{clock(root.began)}")
        for line in _lines(root, now):
            say(line)


def _lines(span: Span, now: datetime, indent: str = "") -> Iterator[str]:
    took = duration(max(0.0, ((span.ended or now) - span.began).total_seconds()))
    parts = [span.kind, span.name]
    if span.kind != "message":
        parts.append(f"{took}{' so far' if span.ended is None else ''}")
    if span.state != "ok":
        parts.append(span.state)
    if tokens := span.prompt_tokens + span.completion_tokens:
        parts.append(f"{tokens:,} tokens")
    if span.text:
        parts.append(span.text)
    yield indent + one_line("  ".join(part for part in parts if part))
    for inner in span.spans:
        yield from _lines(inner, now, indent + "  ")
