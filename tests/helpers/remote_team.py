"""Teams whose member is an agent elsewhere; where that is, `ELSEWHERE` says: the address of a door."""

from __future__ import annotations

import os

from callboard import App
from callboard.agents import A2AAgent
from callboard.teams import RoundRobinGroupChat

DOOR = os.environ.get("ELSEWHERE", "http://127.0.0.1:1")


def stands_for(service: str, *, token: str = "ada") -> A2AAgent:
    return A2AAgent("elsewhere", f"{DOOR}/a2a/{service}", token=token)


app = App("remote")
for name in ("words", "echo", "support", "broken"):
    app.team(RoundRobinGroupChat([stands_for(name)], name=name, max_turns=1))
app.team(RoundRobinGroupChat([stands_for("echo", token="nobody")], name="refused", max_turns=1))
