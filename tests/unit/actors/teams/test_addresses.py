"""Where members live."""

from __future__ import annotations

from callboard import AgentId
from callboard.teams.addresses import member_address, member_name

MANAGER = AgentId("poets", "sea")


def test_a_member_is_found_by_its_name_and_named_by_its_address() -> None:
    address = member_address(MANAGER, "writer")
    assert address == AgentId("poets.writer", "sea")
    assert member_name(MANAGER, address) == "writer"


def test_who_is_no_member_has_no_name() -> None:
    assert member_name(MANAGER, None) == member_name(MANAGER, AgentId("painters.writer", "sea")) == ""
