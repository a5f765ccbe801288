"""Where members live."""

from __future__ import annotations

import pytest

from callboard import AgentId, App
from callboard.errors import SettingValueError
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, TeamClient
from callboard.teams.protocol import asking_address, check_run_id, member_address, member_name
from tests.helpers.chat import Echo

MANAGER = AgentId("poets", "sea")


def test_a_member_is_found_by_its_name_and_named_by_its_address() -> None:
    address = member_address(MANAGER, "writer")
    assert address == AgentId("poets.writer", "sea")
    assert member_name(MANAGER, address) == "writer"


def test_who_is_no_member_has_no_name() -> None:
    assert member_name(MANAGER, None) == member_name(MANAGER, AgentId("painters.writer", "sea")) == ""


@pytest.mark.parametrize("name", ["", asking_address(MANAGER).key])
async def test_a_name_that_no_conversation_can_have(name: str) -> None:
    runtime = RedisAgentRuntime(f"memory://{__name__}")
    app = App("poems")
    team = app.team(RoundRobinGroupChat([Echo("a")], name="poets", max_turns=1))
    client = TeamClient(runtime, "poets", "sea")
    with pytest.raises(SettingValueError, match=r"conversation=.* a text that"):
        TeamClient(runtime, "poets", name)
    with pytest.raises(SettingValueError, match=r"conversation=.* a text that"):
        await client.fork(name)
    with pytest.raises(SettingValueError, match=r"conversation=.* a text that"):
        app.schedule("@daily", "go", team=team, conversation=name)


def test_a_run_has_a_name() -> None:
    with pytest.raises(SettingValueError, match="1 to 100 characters"):
        check_run_id("")
