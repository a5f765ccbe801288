"""A run of a group chat in this process, where what everybody remembers lives in the agents themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from callboard.agents.base import BaseChatAgent
from callboard.agents.chat_agent import Response
from callboard.agents.task import TaskResult
from callboard.cancellation import CancellationToken
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import StopMessage
from callboard.teams.errors import TeamRunError
from callboard.teams.selection import Choice, Floor

from .agent import Agent, Message
from .content import text_of
from .events import GroupChatRunChatEvent
from .group_chat import GroupChat
from .history_commands import asks_to_clear
from .leader import Leader
from .membership import NO_REPLY
from .message import ConversationMessage
from .notes import Note
from .peer import Peer, Reply
from .selection import GroupChatSelection
from .stream import IOStream
from .team import GroupChatTeam
from .termination import GroupChatTermination

INTERRUPTED: Final = "Interrupted"


class GroupChatRun:
    """One run. Everybody hears each message as soon as it is said.

    Args:
        manager: Runs it.
        chat: The group chat.
        sender: Who says the first message; perhaps somebody from outside.
        rounds: How many rounds there were before.
        silent: Whether nothing is shown.
    """

    def __init__(
        self,
        manager: Leader,
        chat: GroupChat,
        sender: Agent,
        *,
        rounds: int = 0,
        silent: bool | None = False,
    ) -> None:
        self.manager = manager
        self.chat = chat
        self.speaker = sender
        self.silent = silent
        self.interrupt: KeyboardInterrupt | None = None
        self.termination = _RunTermination(self, rounds)
        self._sender = sender

    async def carry_out(self, message: Message) -> str | None:
        """Lets the group chat, beginning with a message; returns why it ended.

        Raises:
            KeyboardInterrupt: There was one, and the group has no admin.
            Exception: What an agent or a rule raised.
        """
        seats = [Seat(agent, self) if isinstance(agent, Peer) else agent for agent in self.chat.agents]
        team = GroupChatTeam(
            seats,
            name=self.manager.name,
            description=self.manager.description,
            new_selection=lambda: _RunSelection(self),
            termination=self.termination,
        )
        task = ConversationMessage(data=message, source=self._sender.name)
        stop_reason: str | None = None
        try:
            async with aclosing(team.run_stream(task=task)) as items:
                async for item in items:
                    if isinstance(item, TaskResult):
                        stop_reason = item.stop_reason
        except TeamRunError as error:
            if isinstance(error.__cause__, Exception):
                raise error.__cause__ from None
            raise
        if self.interrupt is not None:
            raise self.interrupt
        return stop_reason

    async def hear(self, message: Message, source: str) -> None:
        """A message was said: the group has it, and everybody hears it but the one who said it."""
        self.speaker = self._named(source)
        self.manager.note_speaker(self.speaker, self.termination.rounds)
        self.chat.append({"role": "user", **message}, self.speaker)
        for agent in self.chat.agents:
            if agent is not self.speaker and isinstance(agent, Peer):
                await self.manager.a_send(self.chat.messages[-1], agent, request_reply=False, silent=True)

    async def tell(self, note: Note) -> None:
        """One member hears something alone."""
        agent = self.chat.agent_by_name(note.to)
        if isinstance(agent, Peer):
            await self.manager.a_send(note.message, agent, request_reply=False, silent=self.silent)

    def _named(self, name: str) -> Agent:
        if name == self._sender.name:
            return self._sender
        return self.chat.agent_by_name(name) or self.manager

    def admin(self) -> Peer | None:
        """Who speaks after a KeyboardInterrupt."""
        admin = self.chat.agent_by_name(self.chat.admin_name)
        return admin if isinstance(admin, Peer) else None

    async def reply_of(self, agent: Peer) -> tuple[Peer, Reply]:
        """What an agent answers; the admin, where it is interrupted."""
        try:
            return agent, await agent.a_generate_reply(sender=self.manager)
        except KeyboardInterrupt as interrupt:
            admin = self.admin()
            if admin is None:
                self.interrupt = interrupt
                return agent, None
            return admin, await admin.a_generate_reply(sender=self.manager)


class Seat(BaseChatAgent):
    """A member's place in a run: it has heard everything already, and is asked for its answer.

    Args:
        agent: The member.
        run: The run.
    """

    def __init__(self, agent: Peer, run: GroupChatRun) -> None:
        super().__init__(agent.name, agent.description)
        self._agent = agent
        self._run = run

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """A message, or a StopMessage where there is no answer."""
        return (ConversationMessage, StopMessage)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """The answer."""
        agent, reply = await self._run.reply_of(self._agent)
        if reply is None:
            return Response(chat_message=StopMessage(content=NO_REPLY, source=self.name))
        chat, manager = self._run.chat, self._run.manager
        if (
            chat.enable_clear_history
            and isinstance(reply, dict)
            and asks_to_clear(text_of(reply.get("content")))
        ):
            reply = {**reply, "content": manager.clear_agents_history(reply, chat)}
        await agent.a_send(reply, manager, request_reply=False, silent=self._run.silent)
        said = manager.chat_messages[agent][-1]
        return Response(chat_message=ConversationMessage(data=dict(said), source=agent.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """It remembers nothing."""


class _RunSelection(GroupChatSelection):
    def __init__(self, run: GroupChatRun) -> None:
        super().__init__(run.chat, run.manager)
        self._run = run

    async def last_speaker(self, floor: Floor) -> Agent:
        return self._run.speaker

    async def select(self, floor: Floor) -> Choice:
        choice = await self._chosen(floor)
        for note in self._run.chat.take_notes():
            await self._run.tell(note)
        if choice.speakers and not self._run.silent:
            IOStream.get_default().send(GroupChatRunChatEvent(choice.speakers[0]))
        return choice

    async def _chosen(self, floor: Floor) -> Choice:
        try:
            return await super().select(floor)
        except KeyboardInterrupt as interrupt:
            admin = self._run.admin()
            if admin is not None:
                return Choice([admin.name])
            self._run.interrupt = interrupt
            return Choice(stop=INTERRUPTED)


class _RunTermination(GroupChatTermination):
    def __init__(self, run: GroupChatRun, rounds: int) -> None:
        manager = run.manager
        super().__init__(manager.is_termination_msg, manager.name, run.chat.max_round, rounds=rounds)
        self._run = run

    async def heard(self, message: Message, source: str) -> None:
        await self._run.hear(message, source)
