"""`callboard runs show`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from callboard.cli.options import AsJson, Namespace, Url
from callboard.cli.output import duration, print_json, say, say_facts
from callboard.cli.sessions import run

from .chosen import RunNames, chosen
from .listing import shown_time

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime
    from callboard.teams import RunSummary

LONGEST = 400  # characters of the task and of the last message, for people


def show(names: RunNames, url: Url = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Show a run: its task, who spoke, how it stands and why it ended.

      callboard runs show poets:app 3f2a
      callboard runs show first-line --namespace poems --json

    Exit codes: 0 shown, 1 there is no such run, 2 wrong use, 3 no server.
    """

    async def read() -> dict[str, Any]:
        async with chosen(names, url, namespace) as (runtime, one):
            return await _told(runtime, one)

    told = run(read())
    if as_json:
        print_json(told)
    else:
        _say(told)


async def _told(runtime: RedisAgentRuntime, one: RunSummary) -> dict[str, Any]:
    """What there is to say of a run."""
    from callboard.teams.orders import Shown

    task, last, speakers = "", "", Counter[str]()
    async for entry in runtime.read_run(one.stream, live=False):
        shown = entry.event
        if not isinstance(shown, Shown) or not shown.is_final or not shown.messages:
            continue
        if shown.is_task:
            task = "\n".join(message.to_text() for message in shown.messages)
        elif len(shown.turn) == 1 and shown.turn[0] and not shown.goes_on:
            speakers[shown.source] += 1
            last = shown.messages[-1].to_text()
    return {**asdict(one), "task": task, "turns": speakers.total(), "speakers": dict(speakers), "last": last}


def _say(told: dict[str, Any]) -> None:
    began, ended = told["began"], told["ended"]
    say(told["run_id"])
    facts = {
        "team": told["team"] or "-",
        "conversation": told["conversation"] or "-",
        "state": told["state"],
        "began": shown_time(began),
        "ended": f"{shown_time(ended)}, after {duration((ended - began).total_seconds())}" if ended else "-",
        "why": told["stop_reason"] or told["problem"] or "-",
        "task": _short(told["task"]),
        "turns": f"{told['turns']}: {_counted(told['speakers'])}" if told["turns"] else "0",
        "last": _short(told["last"]),
        "stream": f"run:{told['stream']}, {told['entries']:,} entries",
    }
    say_facts(facts)


def _counted(speakers: dict[str, int]) -> str:
    return ", ".join(f"{name} {turns}" for name, turns in speakers.items())


def _short(text: str) -> str:
    return (text if len(text) <= LONGEST else f"{text[:LONGEST]}... (--json shows all)") or "-"
