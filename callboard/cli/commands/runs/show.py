"""`callboard runs show`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from callboard.cli.options import AsJson, Namespace, Url
from callboard.cli.output import duration, print_json, say, say_facts, say_table
from callboard.cli.sessions import run

from .chosen import RunNames, chosen
from .listing import shown_time

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime
    from callboard.teams import RunSummary
    from callboard.teams.orders import Shown

LONGEST = 400  # characters of the task and of the last message, for people


def show(names: RunNames, url: Url = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Show a run: its task, who spoke, how it stands, why it ended. Also what models used for it, and what it asks people.

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
    from callboard.teams import TeamClient
    from callboard.teams.orders import Shown
    from callboard.teams.shown_questions import open_questions

    task, last, speakers = "", "", Counter[str]()
    async for entry in runtime.read_run(one.stream, live=False):
        shown = entry.event
        if not isinstance(shown, Shown) or not shown.is_final or not shown.messages:
            continue
        if shown.is_task:
            task = "\n".join(message.to_text() for message in shown.messages)
        elif ends_turn(shown):
            speakers[shown.source] += 1
            last = shown.messages[-1].to_text()
    told = {**asdict(one), "task": task, "turns": speakers.total(), "speakers": dict(speakers), "last": last}
    if not one.team:
        return told
    told["usage"] = asdict(await TeamClient(runtime, one.team, one.conversation).usage(one.run_id))
    questions = [] if one.ended else await open_questions(runtime, one.team, one.conversation)
    told["questions"] = [{"id": q.id, "question": q.question, "agent": str(q.agent)} for q in questions]
    return told


def ends_turn(shown: Shown) -> bool:
    """Whether a member of the outermost team has spoken with this: a question on the way, and its answer, are no turn."""
    return len(shown.turn) == 1 and shown.turn[0] > 0 and not shown.goes_on and not shown.is_aside


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
    for question in told.get("questions", ()):
        say_facts({"asks": f"{question['agent']}: {_short(question['question'])} ({question['id']})"})
    parts = told["usage"]["parts"] if "usage" in told else ()
    if parts:
        say()
        header = ("AGENT", "MODEL", "REQUESTS", "PROMPT", "COMPLETION", "USD")
        say_table(header, [_used(part) for part in parts])


def _used(part: dict[str, Any]) -> tuple[object, ...]:
    spent = part["spent"]
    usd = f"{spent['usd']:.4f}" if spent["usd"] or not spent["unpriced"] else None
    tokens = (spent["prompt_tokens"], spent["completion_tokens"])
    return (part["agent"] or None, part["model"], spent["requests"], *tokens, usd)


def _counted(speakers: dict[str, int]) -> str:
    return ", ".join(f"{name} {turns}" for name, turns in speakers.items())


def _short(text: str) -> str:
    return (text if len(text) <= LONGEST else f"{text[:LONGEST]}... (--json shows all)") or "-"
