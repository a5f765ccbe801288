"""A run that knows what was said in an earlier one."""

from __future__ import annotations

from typing import Final

from callboard.teams.group_chat import BaseGroupChat

from .local import ProcessRun

COMMON: Final = ("message_thread", "current_turn", "callboard")
"""What a saved conversation has, whatever strategy chose its speakers."""


async def continued(team: BaseGroupChat, previous: ProcessRun) -> None:
    """Let a team know what was said in an earlier run of this process.

    Members of both remember what they remembered; others hear all that was said.

    Args:
        team: It has not run yet.
        previous: The earlier run; one that is under way ends first.

    Raises:
        TeamStateError: The teams have nothing in common (a ValueError).
    """
    await previous.wait()
    saved = dict(await previous.team.save_state())
    blank = dict(await team.save_state())
    states, fresh = dict(saved["agent_states"]), dict(blank["agent_states"])
    manager = dict(states.pop(previous.team.plan.name))
    # How this run ends is its own matter.
    manager["callboard"] = {**manager["callboard"], "termination": None}
    manager["current_turn"] = 0
    own = {name: states.get(name, fresh[name]) for name in fresh if name != team.plan.name}
    strategy = dict(fresh[team.plan.name])
    same = strategy.get("type") == manager.get("type")
    merged = {**strategy, **(manager if same else {key: manager[key] for key in COMMON})}
    await team.load_state({**saved, "agent_states": {**own, team.plan.name: merged}})
