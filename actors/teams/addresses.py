"""Where members of a team on the bus live: their types are behind that of the team, their key is the conversation's id."""

from __future__ import annotations

from callboard.broker import AgentId


def member_type(team: str, member: str) -> str:
    """The agent type of a member.

    Args:
        team: The agent type of its manager.
        member: Its name.
    """
    return f"{team}.{member}"


def member_address(manager: AgentId, member: str) -> AgentId:
    """The address of a member in the conversation of this manager."""
    return AgentId(member_type(manager.type, member), manager.key)


def member_name(manager: AgentId, address: AgentId | None) -> str:
    """The name of the member that has this address; "" when it is none of the team."""
    begin = member_type(manager.type, "")
    return address.type[len(begin) :] if address is not None and address.type.startswith(begin) else ""
