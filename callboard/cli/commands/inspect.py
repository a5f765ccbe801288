"""`callboard inspect`: what is known of one agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import bad_use
from callboard.cli.options import AsJson, Namespace, Url, split_names
from callboard.cli.output import ago, duration, print_json, say, say_facts, size
from callboard.cli.sessions import check_type, run, seen

if TYPE_CHECKING:
    from callboard.broker.redis.operations.views import AgentView

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
    view = run(_look(agent_id.type, agent_id.key, state, target, url, namespace))
    if as_json:
        print_json(view)
    else:
        show(view, state)


async def _look(
    agent_type: str, key: str, state: bool, target: str | None, url: str | None, namespace: str | None
) -> AgentView:
    from callboard.broker.redis.operations.agents import agent

    async with seen(target, url, namespace) as transport:
        await check_type(transport, agent_type)
        return await agent(transport, agent_type, key, state=state)


def show(view: AgentView, with_state: bool) -> None:
    """Prints it for people."""
    say(f"{view.type}/{view.key}")
    say_facts(_facts(view))
    if with_state and view.state is not None:
        say(view.state)


def _facts(view: AgentView) -> dict[str, str]:
    facts = {
        "held by": view.holder or "no worker",
        "runs": _running(view) if view.begun else "nothing",
        "next": _running(view) if view.running and not view.begun else "",
        "waiting": f"{view.waiting}, the oldest for {ago(view.oldest, view.at)}" if view.waiting else "0",
        "attempts": f"{view.attempts} failed: {view.reason}" if view.attempts else "",
        "deaths": f"{view.deaths} of workers that held its first message among others" if view.deaths else "",
        "asks": "and waits for the answer: callboard runs answer" if view.suspended else "",
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
