"""The agent types that a team on the bus consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from callboard.agent import BaseAgent
from callboard.declaration import AgentClass, AgentSettings
from callboard.errors import DuplicateAgentTypeError
from callboard.runtime.runtime import RedisAgentRuntime

from .addresses import member_type
from .led import LedTeam
from .manager import TeamManager
from .member import MemberActor


class Declaring(Protocol):
    """An App, as far as a team needs it."""

    def register(
        self,
        type: str,
        factory: Callable[[], BaseAgent],
        *,
        expected_class: AgentClass,
        processes: int = 1,
        settings: AgentSettings | None = None,
    ) -> object:
        """Declare an agent type."""
        ...


@dataclass(frozen=True, slots=True)
class HostedType:
    """One agent type of a team.

    Attributes:
        name: That of the team, and behind a dot that of the member.
        factory: Makes an agent of it.
        agent_class: Its class.
    """

    name: str
    factory: Callable[[], BaseAgent]
    agent_class: type[BaseAgent]


def hosted_types(team: LedTeam, type: str) -> Iterator[HostedType]:
    """The agent types of a team: its manager, its members, and those of members that are teams.

    Args:
        team: The team.
        type: The agent type of its manager.
    """
    yield HostedType(type, partial(TeamManager, team), TeamManager)
    for participant in team.participants:
        member = member_type(type, participant.name)
        if isinstance(participant, LedTeam):
            yield from hosted_types(participant, member)
        else:
            yield HostedType(member, partial(MemberActor, participant), MemberActor)


async def host(team: LedTeam, runtime: RedisAgentRuntime, type: str) -> None:
    """Registers the agent types of a team with a runtime; those that are registered already stay."""
    for hosted in hosted_types(team, type):
        runtime.add_message_types(hosted.agent_class.message_types())
        try:
            await runtime.register_factory(hosted.name, hosted.factory, expected_class=hosted.agent_class)
        except DuplicateAgentTypeError:
            continue
