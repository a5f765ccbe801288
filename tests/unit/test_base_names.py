"""Names that AutoGen has in another place than we."""

from __future__ import annotations

import callboard.agents
import callboard.base
import callboard.conditions
import callboard.tools


def test_the_bases_are_those_of_their_rooms() -> None:
    for name in callboard.base.__all__:
        homes = [getattr(room, name, None) for room in (callboard.agents, callboard.conditions)]
        assert getattr(callboard.base, name) in homes


def test_agents_and_teams_as_tools_are_among_the_tools() -> None:
    assert callboard.tools.AgentTool is callboard.agents.AgentTool
    assert callboard.tools.TeamTool is callboard.agents.TeamTool
    assert {"AgentTool", "TeamTool", "FunctionTool"} <= set(callboard.tools.__all__) & set(
        dir(callboard.tools)
    )
