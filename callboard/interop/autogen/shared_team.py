"""A team of AutoGen's whose members live in several processes.

AutoGen gives a team a random id and registers its manager and all members in one runtime. Here every process builds the same
team, gives it the same name, and says which part of it runs there.
"""

from __future__ import annotations

import asyncio
from typing import Any

from callboard.broker import AgentType

from .errors import TeamInUseError, UnknownMemberError
from .runtime import CallboardRuntime


class SharedTeam:
    """One team in several processes; each builds it alike, with a CallboardRuntime of one namespace.

    ```python
    await SharedTeam(team, "review").host("writer")  # in the writer's process
    ```
    ```python
    SharedTeam(team, "review").lead()  # in the process that runs the team
    result = await team.run(task="Write about Redis.")
    ```

    A member may be hosted in several processes: whichever is free takes its next turn, and what the member has saved goes
    with it. One process leads at a time: there the manager lives, which can't be replaced in the middle of a run.

    Args:
        team: A team of `autogen_agentchat.teams` that has not been used yet.
        name: The same in every process, and of no other team in the namespace; letters, digits, `_`, `-` and `.`.

    Raises:
        TeamInUseError: The team has run, or has been set up otherwise (a RuntimeError).
        TypeError: Its runtime is no CallboardRuntime.
        ValueError: The name has other characters.
    """

    def __init__(self, team: Any, name: str) -> None:
        self._team = team
        self._name = AgentType(name).type
        # A team offers no way to choose its ids. These are the fields of the version that the extra pins.
        runtime = team._runtime
        if not isinstance(runtime, CallboardRuntime):
            raise TypeError(f"the team {name!r} needs runtime=CallboardRuntime(...) to be shared")
        if team._initialized:
            raise TeamInUseError(name)
        self._runtime = runtime
        _rename(team, self._name)

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(self._team._participant_names)

    def lead(self, *here: str) -> None:
        """Say that this process runs the team: its manager lives here.

        Args:
            *here: Members that run here as well; the others are hosted elsewhere.

        Raises:
            UnknownMemberError: There is no such member (a LookupError).
        """
        self._check(here)
        self._leave([name for name in self.members if name not in here], manager=False)

    async def host(self, *members: str) -> None:
        """Run members here, from now until the runtime is closed. The call returns as soon as they are ready.

        Raises:
            UnknownMemberError: There is no such member (a LookupError).
        """
        self._check(members)
        self._leave([name for name in self.members if name not in members], manager=True)
        await self._team._init(self._runtime)
        if not self._runtime.bus.is_running:
            self._runtime.start()
        await self._runtime.bus.ready()

    async def serve(self, *members: str) -> None:
        """Run members here until the call is cancelled."""
        await self.host(*members)
        await asyncio.get_running_loop().create_future()

    def _check(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self.members:
                raise UnknownMemberError(name, self.members)

    def _leave(self, names: list[str], *, manager: bool) -> None:
        types = dict(zip(self.members, self._team._participant_topic_types, strict=True))
        left = [types[name] for name in names]
        if manager:
            left.append(self._team._group_chat_manager_topic_type)
        self._runtime.bus.leave_to_others(left)


def _rename(team: Any, name: str) -> None:
    """Gives a team the ids that it would have had with this name.

    A team among its members keeps its own: it runs where that member has its turn, and is saved with it.
    """
    team._team_id = name
    team._group_topic_type = f"group_topic_{name}"
    team._group_chat_manager_topic_type = f"{team._group_chat_manager_name}_{name}"
    team._participant_topic_types = [f"{member}_{name}" for member in team._participant_names]
    team._output_topic_type = f"output_topic_{name}"
