"""What is stored of a conversation with each turn."""

from __future__ import annotations

from callboard.core.state import dump_state
from callboard.teams import RoundRobinGroupChat
from callboard.teams.loop import Speaking
from callboard.teams.manager import TeamManager
from callboard.teams.protocol import CurrentRun, ManagerState, ParentTeam
from callboard.teams.states import MemberMemory
from tests.helpers.chat import Echo


def stored(state: ManagerState) -> bytes:
    manager = TeamManager(RoundRobinGroupChat([Echo("a")], name="team"))
    manager.state = state
    return dump_state(manager) or b""


def test_nothing_of_a_turn_is_stored_as_null() -> None:
    """What says null is read again before each commit, to see whether it can be."""
    run = CurrentRun(run_id="r", stream="s")
    state = ManagerState(run=run, speaking={"a": Speaking(turn=1, heard=1)}, recent=["r"])
    assert b"null" not in stored(state)
    assert "null" not in MemberMemory(asked=1).model_dump_json()


def test_what_was_stored_with_null_is_still_read() -> None:
    old = b'{"termination": null, "run": {"run_id": "r", "stream": "s", "parent": null}}'
    run = ManagerState.model_validate_json(old).run
    assert run == CurrentRun(run_id="r", stream="s")


def test_what_is_there_is_stored() -> None:
    parent = ParentTeam(manager="outer/c", turn=2, inside=(2,))
    state = ManagerState(termination={"count": 1}, run=CurrentRun(run_id="r", stream="s", parent=parent))
    assert ManagerState.model_validate_json(stored(state)) == state
