"""A run of a team in this process: members are called, and nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel

from callboard.agents.base import (
    ChatAgent,
    Said,
    Task,
    TaskResult,
    Team,
    task_messages,
)
from callboard.core.cancellation import CancellationToken
from callboard.messages.chat import BaseChatMessage
from callboard.models.stores import LocalStore

from .budget import RunBudget, Spending, check_budget, not_limited, run_error
from .errors import TeamBusyError, TeamNotRunError, TeamRunError, TeamTaskError
from .loop import Choice, ConversationState, LedTeam, Participant, TurnLoop, is_kept
from .member import reset_participant, speak
from .outcome import with_output
from .states import dump_team, load_team


class LocalRun:
    """One run of a team in this process.

    It goes on by itself in a task; the reader of its messages may be slow. When the reader leaves, it is cancelled.

    Args:
        loop: The turn loop of the conversation.
        participants: The members, by name.
        gate: No member begins to speak while it is cleared.
        token: Ends the run.
        spending: Counts what it uses.
    """

    def __init__(
        self,
        loop: TurnLoop,
        participants: dict[str, Participant],
        gate: asyncio.Event,
        token: CancellationToken,
        spending: Spending,
    ) -> None:
        self._spending = spending
        self._loop = loop
        self._participants = participants
        self._gate = gate
        self._token = token
        self._shown: asyncio.Queue[Said | TaskResult | BaseException] = asyncio.Queue()
        self._kept: list[Said] = []

    async def stream(
        self, task: Sequence[BaseChatMessage] | None, output_task_messages: bool
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carries out the task; yields what is said, and at last the result.

        Raises:
            ValueError: The strategy refuses the task.
            TeamRunError: A member, the strategy or the termination condition failed (a RuntimeError).
            asyncio.CancelledError: The token was cancelled.
        """
        self._loop.show = self._emit
        with self._spending.counted():
            running = self._token.link_future(asyncio.ensure_future(self._run(task, output_task_messages)))
        running.add_done_callback(self._ended)
        try:
            while True:
                shown = await self._shown.get()
                if isinstance(shown, BaseException):
                    raise shown
                yield shown
                if isinstance(shown, TaskResult):
                    return
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _ended(self, running: asyncio.Future[TaskResult]) -> None:
        error = self._cancelled() if running.cancelled() else running.exception()
        self._shown.put_nowait(running.result() if error is None else error)

    def _cancelled(self) -> BaseException:
        """A member may have awaited what somebody cancelled: who awaits the run is not being cancelled."""
        if self._token.is_cancelled():
            return asyncio.CancelledError("the token was cancelled")
        return TeamRunError("CancelledError", "what it awaited was cancelled", self._loop.plan.name)

    async def _run(self, task: Sequence[BaseChatMessage] | None, output_task_messages: bool) -> TaskResult:
        async with self._spending.limited():
            return await self._to_the_end(task, output_task_messages)

    async def _to_the_end(
        self, task: Sequence[BaseChatMessage] | None, output_task_messages: bool
    ) -> TaskResult:
        await self._loop.check(task)
        if output_task_messages:
            for message in task or ():
                self._show(message)
        following = await self._loop.start(task)
        while following.stop is None:
            await self._say(following)
            # Members that wait for nothing would leave no moment to read, pause or cancel before the end of the run.
            await asyncio.sleep(0)
            await self._gate.wait()
            self._spending.ask(len(following.speakers))
            following = await self._round(following.speakers)
        await self._say(following)
        return TaskResult(messages=self._kept, stop_reason=following.stop)

    async def _say(self, following: Choice) -> None:
        for message in following.said:
            self._show(message)
        for name in following.resets:
            await reset_participant(self._participants[name], self._token)

    async def _round(self, members: Sequence[str]) -> Choice:
        if len(members) == 1:
            return await self._hear(*await self._speak(members[0]))
        speaking = [asyncio.ensure_future(self._speak(name)) for name in members]
        try:
            following = Choice()
            for spoken in asyncio.as_completed(speaking):
                following = await self._hear(*await spoken)
            return following
        finally:
            for task in speaking:
                task.cancel()
            await asyncio.gather(*speaking, return_exceptions=True)

    async def _hear(self, member: str, turn: int, said: Sequence[Said]) -> Choice:
        is_team = isinstance(self._participants[member], Team)
        try:
            return await self._loop.hear(member, turn, said, is_team) or Choice()
        except Exception as error:
            raise run_error(error, self._loop.plan.name) from error

    async def _speak(self, name: str) -> tuple[str, int, Sequence[Said]]:
        participant, speaking = self._participants[name], self._loop.state.speaking[name]
        try:
            with self._spending.of(name):
                unheard = self._loop.unheard(name, speaking)
                said = await speak(participant, unheard, self._token, self._emit)
        except TeamRunError:
            raise
        except Exception as error:
            raise run_error(error, name) from error
        if not isinstance(participant, Team):
            self._show(said[-1])
        return name, speaking.turn, said

    async def _emit(self, message: Said) -> None:
        self._show(message)

    def _show(self, message: Said) -> None:
        self._shown.put_nowait(message)
        if is_kept(message):
            self._kept.append(message)


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
        self._store = LocalStore()

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
        """Let no member begin to speak."""
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
        """Takes over a saved state; when a member refuses it, all have what they had before."""
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
