"""A member of a team as an actor: it speaks when the manager asks, and shows what it says and asks meanwhile."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, cast

from callboard.agents.base import BaseChatAgent, Response, Said, TaskResult, Team, twin_of
from callboard.agents.errors import no_response
from callboard.broker.redis.client.questions import InputStatus
from callboard.broker.redis.client.states import StoredState
from callboard.broker.retry import Buried
from callboard.core.agent import Messaging
from callboard.core.cancellation import CancellationToken
from callboard.core.context import ContextScope, MessageContext, host
from callboard.core.handlers import RoutedAgent, event, rpc
from callboard.core.people import InputRequest, Question
from callboard.core.state import restore_state
from callboard.messages.chat import BaseChatMessage
from callboard.messages.events import InputAnsweredEvent, InputRequestedEvent
from callboard.runtime.effects import noting
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.runtime.steps import taping

from .budget import overspent_by
from .errors import RunBudgetExceededError, TeamMemberError, TeamNotRunError
from .fork import begin_member_marks, mark_member, take_over
from .loop import Participant, is_kept, reached, tape_for, write_takes
from .notices import Hearers, tell_question
from .outages import outage_after
from .outcome import answer_id, failure_by, failure_of, turn_answered
from .protocol import (
    Accepted,
    Answer,
    Become,
    Forget,
    LoadConversation,
    ResetConversation,
    SaveConversation,
    Saved,
    Shown,
    Speak,
    Told,
    conversation_of,
    keys_in,
    parts_of,
    tell_all_of,
)
from .states import MemberMemory

if TYPE_CHECKING:
    from callboard.broker import AgentId
    from callboard.core.protocol import AgentRuntime


class MemberActor(RoutedAgent[MemberMemory]):
    """Speaks for an agent in one conversation; also for a team that is none of ours, which runs as a whole in it then.

    What the agent remembers is a part of the commit that carries its answer, so a turn is taken once, whatever dies.

    Args:
        prototype: The agent that the team was given.
    """

    def __init__(self, prototype: Participant) -> None:
        super().__init__(prototype.description)
        self._prototype = prototype
        self._agent: Participant | None = None
        self._is_team = False  # of that agent; to ask its class takes longer than to take a turn's number
        self._remembers: MemberMemory | None = None

    @event
    async def on_speak(self, message: Speak, ctx: MessageContext) -> None:
        """Take a turn."""
        if ctx.sender is None:
            raise TeamNotRunError(self.id.type, "was asked to speak by nobody")
        await reached("member asked")
        agent, state, runtime = await self._current(), self.state, _bus(self)
        turn = (*message.inside, message.turn)
        drafts = Drafts(runtime, message.run, turn, agent.name)
        # Questions that the agent asks people during the turn are shown to the readers of the run.
        hearers = Hearers(message.hearer, message.heard_by)
        questions = ShownQuestions(runtime, message.run, turn, self._prototype.name, self.id, hearers)
        unheard = message.unheard_after(state.asked)
        heard = [said for said in unheard if isinstance(said, BaseChatMessage)]
        tape = tape_for(message.record)
        try:
            here = ContextScope(host, (self, self.id.key))
            with ContextScope(noting, questions), taping(tape), here:
                said = await speak(agent, heard, ctx.cancellation_token, drafts.show)
            await drafts.flush()
            await self._remember(agent)
        except BaseException as error:
            self._doubt(agent)
            if outage := await outage_after(agent.name, error):
                # The bus tries the message again, for minutes perhaps, and readers would see a run that says nothing.
                await drafts.show(outage)
                await drafts.flush()
            if not _is_overspent(error):
                raise
            # Another attempt would end like this one, and the larger run as well: it ends now.
            await self.tell(failure_of(error, agent.name, message.turn), ctx.sender, if_buried=True)
            return
        finally:
            await drafts.close()
        await reached("member answers")
        state.asked = message.turn
        if state.context.dropped:  # marks say how long it was
            begin_member_marks(state, message.turn - 1)
        mark_member(state, message.turn, runtime.settings.fork_turns)
        await write_takes(runtime, message.run, tape)
        answer = Answer(
            turn=message.turn,
            attempt=drafts.attempt,
            messages=said,
            drafts=drafts.first,
            is_team=self._is_team,
        )
        await tell_all_of(self, answer, ctx.sender, message_id=answer_id(message.turn, ctx.message_id))

    @event
    async def on_forget(self, message: Forget, ctx: MessageContext) -> None:
        """Be as in the beginning."""
        await self._forget(ctx.cancellation_token, max(message.turn, self.state.asked))

    @event
    async def on_told(self, message: Told, ctx: MessageContext) -> None:
        """The team pauses, or goes on."""
        agent = await self._current()
        await _tell(agent, message.what, ctx.cancellation_token)
        await self._remember(agent)

    @rpc
    async def on_reset(self, message: ResetConversation, ctx: MessageContext) -> Accepted:
        """The same; who asks hears whether it could."""
        await self._forget(ctx.cancellation_token, 0)
        return Accepted()

    @rpc
    async def on_save(self, message: SaveConversation, ctx: MessageContext) -> Saved:
        """The state of its agent, for a manager of an older version, which can't read it by itself."""
        return Saved(state=dict(await (await self._current()).save_state()))

    @rpc
    async def on_load(self, message: LoadConversation, ctx: MessageContext) -> Accepted:
        """Take over a state, or try to."""
        agent = await (self._made(MemberMemory()) if message.is_trial else self._current())
        await agent.load_state(message.state)
        if not message.is_trial:
            self.state.asked = 0
            await self._remember(agent)
            begin_member_marks(self.state, 0)
            mark_member(self.state, 0, _bus(self).settings.fork_turns, is_taken=False)
        return Accepted()

    @event
    async def on_buried(self, message: Buried, ctx: MessageContext) -> None:
        """The manager could not take an answer: it is told in plain words, so that the run does not wait for ever."""
        failed = failure_by(message, self.id.type, turn_answered(message, self.state.asked))
        await self.tell(failed, message.recipient)

    @event
    async def on_become(self, message: Become, ctx: MessageContext) -> None:
        """Take over the part that this member has had in the conversation that this one is a fork of."""
        if self.state.marks:  # a dead letter that comes too late
            raise TeamMemberError(
                self.id.type, self._prototype.name, "take over its part", "it has spoken already"
            )
        take_over(self.state, message.part)
        self._agent = None

    async def _forget(self, token: CancellationToken, lost: int) -> None:
        agent = await self._current()
        await reset_participant(agent, token)
        self.state.asked = 0
        await self._remember(agent)
        begin_member_marks(self.state, lost)
        mark_member(self.state, lost + 1 if lost else 0, _bus(self).settings.fork_turns, is_taken=False)

    # The agent of this conversation

    async def saved(self, stored: StoredState) -> dict[str, Any]:
        """The agent's `save_state` for a state that was committed, in whatever process the agent is.

        Raises:
            StateError: What is stored does not fit any more.
        """
        restore_state(self, stored.data or None, stored.logs)
        return dict(await (await self._current()).save_state())

    async def saved_of(self, memory: MemberMemory) -> dict[str, Any]:
        """The agent's `save_state` for what it remembered at some time."""
        return dict(await (await self._made(memory)).save_state())

    async def _current(self) -> Participant:
        """The agent as the last commit left it, wherever that was."""
        # Another process may have taken turns of this conversation since, after a lease that ended here. The agent in
        # memory has not heard them: it would answer as if they had not been, and its commit would put their messages out of
        # its context.
        # guard: a member goes on from what its last turn left
        if self._agent is None or self._remembers is not self.state:
            self._agent = await self._made(self.state)
            self._is_team = isinstance(self._agent, Team)
            self._remembers = self.state
        return self._agent

    async def _made(self, memory: MemberMemory) -> Participant:
        agent = twin_of(self._prototype)
        if isinstance(agent, BaseChatAgent):
            agent.keep_context_in(memory.context)
        if memory.saved is not None:
            await _load(agent, memory.saved)
        return agent

    async def _remember(self, agent: Participant) -> None:
        saved = await _save(agent)
        if saved != self.state.saved:
            self.state.saved = saved

    def _doubt(self, agent: Participant) -> None:
        """A turn has failed in the middle: what can be loaded is loaded again. What can't be stays as the turn left it."""
        if type(agent).save_state is not BaseChatAgent.save_state:
            self._agent = None


def _bus(agent: Messaging) -> RedisAgentRuntime:
    return cast("RedisAgentRuntime", agent.runtime)


def _is_overspent(error: BaseException) -> bool:
    return isinstance(error, RunBudgetExceededError) or overspent_by(error) is not None


async def _save(agent: Participant) -> dict[str, Any] | None:
    saved: Mapping[str, Any] | None
    saved = await (agent.save_beside_context() if isinstance(agent, BaseChatAgent) else agent.save_state())
    return None if saved is None else dict(saved)


async def _load(agent: Participant, saved: Mapping[str, Any]) -> None:
    await (agent.load_beside_context(saved) if isinstance(agent, BaseChatAgent) else agent.load_state(saved))


async def _tell(agent: Participant, what: str, token: CancellationToken) -> None:
    if isinstance(agent, Team):
        return  # it runs within one turn
    if what == "pause":
        await agent.on_pause(token)
    elif what == "resume":
        await agent.on_resume(token)


Emit: TypeAlias = Callable[[Said], Awaitable[None]]


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
    raise no_response(participant.name)


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


ATTEMPT_BYTES: Final = 8  # of the name of an attempt
MOST_WAITING: Final = 1000  # pieces of a member that is faster than the server


def tag_of(turn: tuple[int, ...]) -> str:
    """The tag of the drafts of a turn, and of the turns inside it."""
    return "".join(f"{number}." for number in turn)


class Drafts:
    """The drafts of one attempt at a turn.

    The first piece leaves at once; what comes while it is on its way leaves together.

    Args:
        runtime: Writes to the run's stream.
        run: Id of the run.
        turn: The turn, as a path.
        source: Who speaks.

    Attributes:
        attempt: Name of the attempt.
        first: Number of the first draft in the stream; 0: there is none.
    """

    def __init__(self, runtime: AgentRuntime, run: str, turn: tuple[int, ...], source: str) -> None:
        self.attempt = secrets.token_hex(ATTEMPT_BYTES)
        self._runtime = runtime
        self._run = run
        self._turn = turn
        self._source = source
        self._waiting: list[Said] = []
        self._writing: asyncio.Task[None] | None = None
        self.first = 0

    async def show(self, message: Said) -> None:
        """Lets readers see something.

        Raises:
            FencedError: Another worker has the turn.
        """
        self._waiting.append(message)
        if self._writing is None or self._writing.done() or len(self._waiting) > MOST_WAITING:
            await self.flush()
            self._writing = asyncio.ensure_future(self._write())

    async def flush(self) -> None:
        """Waits until all of it was written; raises what went wrong."""
        if self._writing is not None:
            await self._writing

    async def close(self) -> None:
        """Nothing more is written."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        while self._waiting:
            messages, self._waiting = self._waiting, []
            shown = [
                Shown(turn=self._turn, source=self._source, attempt=self.attempt, messages=part)
                for part in parts_of(messages)
            ]
            number = await self._runtime.write_run(self._run, shown, tag=tag_of(self._turn), now=True)
            self.first = self.first or number


MOST_DETAILS: Final = 100_000  # characters of what readers see with a question
OMITTED: Final = "omitted"  # stands in the place of details that are longer


class ShownQuestions:
    """Writes into a run's stream that a member asks, and that there is an answer.

    The first is written together with the question; the second by the handler that goes on, in each of its attempts, and
    readers are shown it once.

    Args:
        runtime: Writes to the stream.
        stream: Name of the run's stream.
        turn: The member's turn, as a path.
        source: The member.
        agent: Its address.
        hearers: Who is told of the questions besides.
    """

    def __init__(
        self,
        runtime: RedisAgentRuntime,
        stream: str,
        turn: tuple[int, ...],
        source: str,
        agent: AgentId,
        hearers: Hearers,
    ) -> None:
        self.stream = stream
        self._agent = agent
        self._hearers = hearers
        self._runtime = runtime
        self._turn = turn
        self._source = source

    def asked(self, input_id: str, question: Question) -> list[Shown]:
        """The entry that is written with a question: its details only where they are not too large for an event."""
        details: dict[str, Any] = json.loads(question.details_json or "{}")
        if len(question.details_json) > MOST_DETAILS:
            details = {"kind": details.get("kind", ""), OMITTED: True}
        event = InputRequestedEvent(
            id=f"{input_id}:asked",
            source=self._source,
            request_id=input_id,
            content=question.text[:MOST_DETAILS],
            choices=list(question.choices or ()),
            to=list(question.to),
            answer_schema=json.loads(question.schema),
            details=details,
            timeout=question.timeout,
        )
        return [self._shown(event)]

    async def waits(self, input_id: str, question: Question) -> None:
        """Tells who is to hear of it."""
        if any(self._hearers):
            await tell_question(self._runtime, self._agent, self._hearers, self.stream, input_id, question)

    async def ended(self, input_id: str) -> None:
        """Shows what came of a question."""
        request = await self._runtime.inputs.get(input_id)
        await self._runtime.write_run(self.stream, [self._shown(answered(request, self._source))], now=True)

    def _shown(self, event: InputRequestedEvent | InputAnsweredEvent) -> Shown:
        return Shown(
            turn=self._turn, source=self._source, attempt="", messages=[event], is_final=True, is_aside=True
        )


def answered(request: InputRequest, source: str) -> InputAnsweredEvent:
    """The event of a question that is not open any more."""
    is_answered = request.status is InputStatus.ANSWERED
    return InputAnsweredEvent(
        id=f"{request.id}:ended",
        source=source,
        request_id=request.id,
        status=cast("Any", request.status.value),
        content=json.dumps(request.answer, ensure_ascii=False) if is_answered else "",
        by=request.by,
    )


async def open_questions(runtime: RedisAgentRuntime, team: str, conversation: str) -> list[InputRequest]:
    """The open questions of a conversation, of nested teams as well, the oldest first.

    Args:
        runtime: Reaches the server.
        team: Agent type of the outermost team.
        conversation: Id of the conversation.
    """
    found = [
        question
        for key in keys_in(conversation)
        for question in await runtime.inputs.list(key=key)
        if question.agent.type == team or question.agent.type.startswith(f"{team}.")
    ]
    return sorted(found, key=lambda question: question.asked)


async def waiting_conversations(runtime: RedisAgentRuntime) -> set[tuple[str, str]]:
    """The outermost team and the id of each conversation that has an open question."""
    questions = await runtime.inputs.list()
    return {
        (question.agent.type.partition(".")[0], conversation_of(question.agent)) for question in questions
    }
