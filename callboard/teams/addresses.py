"""Where members of a team on the bus live: their types are behind that of the team, their key is the conversation's id."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from callboard.broker import AgentId

KNOWN: Final = 10_000  # addresses that are kept: each turn asks for one
ASKS: Final = " (asks)"  # behind a conversation's id: the key of the agent that asks people for its manager


def asking_address(manager: AgentId) -> AgentId:
    """The address of the agent that asks people for this manager."""
    return AgentId(manager.type, manager.key + ASKS)


def keys_in(conversation: str) -> tuple[str, str]:
    """The keys that agents of a conversation may have: those of its members, and of the agent that asks people."""
    return conversation, conversation + ASKS


def conversation_of(address: AgentId) -> str:
    """The conversation in which an agent of a team asks."""
    return address.key.removesuffix(ASKS)


def member_type(team: str, member: str) -> str:
    """The agent type of a member.

    Args:
        team: The agent type of its manager.
        member: Its name.
    """
    return f"{team}.{member}"


@lru_cache(maxsize=KNOWN)
def member_address(manager: AgentId, member: str) -> AgentId:
    """The address of a member in the conversation of this manager."""
    return AgentId(member_type(manager.type, member), manager.key)


def member_name(manager: AgentId, address: AgentId | None) -> str:
    """The name of the member that has this address; "" when it is none of the team."""
    begin = member_type(manager.type, "")
    return address.type[len(begin) :] if address is not None and address.type.startswith(begin) else ""


def asking_id(manager: AgentId, run_id: str, turn: int) -> str:
    """Id of the message that asks for a turn: by it the turn is cancelled, wherever it is, and known when it is buried."""
    return _id_of(manager, run_id, turn)


def consulting_id(manager: AgentId, run_id: str, number: int) -> str:
    """Id of the message by which a manager has a person asked: the question of this number in its run."""
    return _id_of(manager, run_id, "asks", number)


def _id_of(*parts: object) -> str:
    # A hash: ids of conversations and runs may be long.
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:32]
