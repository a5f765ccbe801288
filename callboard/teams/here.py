"""The conversation of a team whose members are objects of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel

from callboard.agents.chat_agent import ChatAgent
from callboard.agents.task import Said, Task, TaskResult, task_messages
from callboard.agents.team import Team
from callboard.cancellation import CancellationToken
from callboard.models.stores import InMemoryStore

from .budget import RunBudget, check_budget, not_limited
from .errors import TeamBusyError, TeamNotRunError, TeamTaskError
from .led import LedTeam
from .local import LocalRun, reset_participant
from .loop import TurnLoop
from .output import with_output
from .saving import dump_team, load_team
from .spending import Spending
from .state import ConversationState


class ConversationHere:
    """Runs a team in this process; see BaseGroupChat for what each method does.

    Args:
        team: The team.
        output_content_type: What a run's last message is read as; None: it is not.
    """

    def __init__(self, team: LedTeam, output_content_type: type[BaseModel] | None = None) -> None:
        self._team = team
        self._output_content_type = output_content_type
        self._participants = {participant.name: participant for participant in team.participants}
        self._loop: TurnLoop | None = None
        self._gate = asyncio.Event()
        self._gate.set()
        self._is_running = False
        self._store = InMemoryStore()

    async def run_stream(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
        budget: RunBudget | None = None,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carries out a task."""
        messages = task_messages(task)
        check_budget(budget)
        if self._is_running:
            raise TeamBusyError(self._team.name)
        problem = not_limited(self._team.participants) if budget is not None and budget.is_for_models else ""
        if problem:
            raise TeamTaskError(self._team.name, problem)
        self._is_running = True
        token = cancellation_token or CancellationToken()
        try:
            spending = Spending(self._team.name, budget or self._team.plan.budget, self._store)
            run = LocalRun(self._turn_loop(), self._participants, self._gate, token, spending)
            async with aclosing(run.stream(messages or None, output_task_messages)) as items:
                async for item in items:
                    yield self._finished(item) if isinstance(item, TaskResult) else item
        finally:
            self._is_running = False

    async def reset(self) -> None:
        """Forgets everything."""
        self._check_is_idle("can't be reset")
        await self._turn_loop().reset()
        for participant in self._participants.values():
            await reset_participant(participant, CancellationToken())

    async def pause(self) -> None:
        """Nobody begins to speak."""
        self._check_has_run("can't be paused")
        self._gate.clear()
        await self._each(lambda team: team.pause(), lambda agent: agent.on_pause(CancellationToken()))

    async def resume(self) -> None:
        """It goes on."""
        self._check_has_run("can't be resumed")
        await self._each(lambda team: team.resume(), lambda agent: agent.on_resume(CancellationToken()))
        self._gate.set()

    async def save_state(self) -> Mapping[str, Any]:
        """All that team and members remember."""
        loop = self._turn_loop()
        states = {name: await participant.save_state() for name, participant in self._participants.items()}
        return await dump_team(self._team.plan, loop.state, loop.selection, loop.termination, states)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state; when somebody refuses it, everybody has what they had before."""
        self._check_is_idle("can't load a state")
        before = await self.save_state()
        try:
            await self._load(state)
        except BaseException:
            await self._load(before)
            raise

    async def _load(self, state: Mapping[str, Any]) -> None:
        loop = self._turn_loop()
        states = await load_team(self._team.plan, loop.state, loop.selection, loop.termination, state)
        for name, saved in states.items():
            await self._participants[name].load_state(saved)

    async def _each(
        self,
        tell_team: Callable[[Team], Awaitable[None]],
        tell_agent: Callable[[ChatAgent], Awaitable[None]],
    ) -> None:
        for participant in self._participants.values():
            await (tell_team(participant) if isinstance(participant, Team) else tell_agent(participant))

    def _finished(self, result: TaskResult) -> TaskResult:
        return with_output(result, self._output_content_type, self._team.name)

    def _turn_loop(self) -> TurnLoop:
        if self._loop is None:
            team, state, selection = self._team, ConversationState(), self._team.new_selection()
            selection.keep_context_in(state.context)
            self._loop = TurnLoop(team.plan, state, selection, team.termination_condition)
        return self._loop

    def _check_is_idle(self, what: str) -> None:
        if self._is_running:
            raise TeamNotRunError(self._team.name, f"{what} while it is running")

    def _check_has_run(self, what: str) -> None:
        if self._loop is None:
            raise TeamNotRunError(self._team.name, f"{what} before its first run")
