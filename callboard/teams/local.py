"""A conversation of a team in this process: members are called, and nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias, TypeGuard

from callboard.agents.base import BaseChatAgent
from callboard.agents.chat_agent import ChatAgent, Response
from callboard.agents.errors import NoResponseError
from callboard.agents.task import Said, TaskResult
from callboard.agents.team import Team
from callboard.cancellation import CancellationToken
from callboard.messages.base import BaseChatMessage

from .errors import TeamRunError
from .loop import Ask, Next, Spoken, TurnLoop, is_kept
from .run_errors import run_error
from .spending import Spending

Participant: TypeAlias = ChatAgent | Team
Emit: TypeAlias = Callable[[Said], Awaitable[None]]


class LocalRun:
    """One run of a team in this process.

    It goes on by itself in a task; whoever reads its messages may be slow. When the reader leaves, it is cancelled.

    Args:
        loop: The turn loop of the conversation.
        participants: The members, by name.
        gate: Nobody begins to speak while it is cleared.
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
        error: BaseException | None = asyncio.CancelledError() if running.cancelled() else running.exception()
        self._shown.put_nowait(running.result() if error is None else error)

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
            # Members that wait for nothing would let nobody read, pause or cancel before the end of the run.
            await asyncio.sleep(0)
            await self._gate.wait()
            self._spending.ask(len(following.asks))
            following = await self._round(following.asks)
        await self._say(following)
        return TaskResult(messages=self._kept, stop_reason=following.stop)

    async def _say(self, following: Next) -> None:
        for message in following.said:
            self._show(message)
        for name in following.resets:
            await reset_participant(self._participants[name], self._token)

    async def _round(self, asks: Sequence[Ask]) -> Next:
        if len(asks) == 1:
            return await self._hear(await self._speak(asks[0]))
        speaking = [asyncio.ensure_future(self._speak(ask)) for ask in asks]
        try:
            following = Next()
            for spoken in asyncio.as_completed(speaking):
                following = await self._hear(await spoken)
            return following
        finally:
            for task in speaking:
                task.cancel()
            await asyncio.gather(*speaking, return_exceptions=True)

    async def _hear(self, spoken: Spoken) -> Next:
        try:
            return await self._loop.hear(spoken) or Next()
        except Exception as error:
            raise run_error(error, self._loop.plan.name) from error

    async def _speak(self, ask: Ask) -> Spoken:
        participant = self._participants[ask.member]
        try:
            with self._spending.of(ask.member):
                said = await speak(participant, ask.messages, self._token, self._emit)
        except TeamRunError:
            raise
        except Exception as error:
            raise run_error(error, ask.member) from error
        is_team = isinstance(participant, Team)
        if not is_team:
            self._show(said[-1])
        return Spoken(ask.member, ask.turn, said, is_team)

    async def _emit(self, message: Said) -> None:
        self._show(message)

    def _show(self, message: Said) -> None:
        self._shown.put_nowait(message)
        if is_kept(message):
            self._kept.append(message)


async def speak(
    participant: Participant, messages: Sequence[BaseChatMessage], token: CancellationToken, emit: Emit
) -> list[Said]:
    """Lets a member speak, once.

    Args:
        participant: The member.
        messages: What was said since it last spoke.
        token: Ends it.
        emit: Awaited with everything that happens on the way.

    Returns:
        What happened on the way but for pieces of streamed texts, and at last what it says.

    Raises:
        NoResponseError: It said nothing (a RuntimeError).
    """
    said: list[Said] = []
    if _is_plain(participant):
        response = await participant.on_messages(messages, token)
        for message in response.inner_messages or ():
            await emit(message)
            if is_kept(message):
                said.append(message)
        return [*said, response.chat_message]
    async with aclosing(_items(participant, messages, token)) as items:
        async for item in items:
            if isinstance(item, TaskResult):
                return list(item.messages)
            if isinstance(item, Response):
                return [*said, item.chat_message]
            await emit(item)
            if is_kept(item):
                said.append(item)
    raise NoResponseError(participant.name)


def _is_plain(participant: Participant) -> TypeGuard[BaseChatAgent]:
    """Whether its stream is what `on_messages` returns: then none is made, which would cost more than the turn loop."""
    stream = getattr(participant, "on_messages_stream", None)
    return getattr(stream, "__func__", None) is BaseChatAgent.on_messages_stream


def _items(
    participant: Participant, messages: Sequence[BaseChatMessage], token: CancellationToken
) -> AsyncGenerator[Said | Response | TaskResult, None]:
    if isinstance(participant, Team):
        # A team that speaks twice in a row has heard nothing new: it goes on.
        task = list(messages) or None
        return participant.run_stream(task=task, cancellation_token=token, output_task_messages=False)
    return participant.on_messages_stream(messages, token)


async def reset_participant(participant: Participant, token: CancellationToken) -> None:
    """Lets a member be as in the beginning."""
    if isinstance(participant, Team):
        await participant.reset()
    else:
        await participant.on_reset(token)
