"""A member of a team as an actor: it speaks when the manager asks, and shows what it says and asks meanwhile."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from operator import not_
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel, Field

from callboard.agents.base import BaseChatAgent, Said, Team, twin_of
from callboard.broker.redis.client.questions import InputStatus
from callboard.broker.redis.client.states import StoredState
from callboard.broker.retry import Buried
from callboard.core.cancellation import CancellationToken
from callboard.core.context import ContextScope, MessageContext, host
from callboard.core.handlers import RoutedAgent, event, rpc
from callboard.core.people import InputRequest
from callboard.core.questions import CheckedQuestion
from callboard.core.state import Log, restore_state
from callboard.memory.llm_messages import LLMMessage
from callboard.messages.chat import BaseChatMessage
from callboard.messages.events import InputAnsweredEvent, InputRequestedEvent
from callboard.runtime.effects import Noting, noting
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.runtime.steps import taping

from .budget import overspent_by
from .errors import RunBudgetExceededError, TeamMemberError, TeamNotRunError
from .local_run import Participant, reset_participant, speak
from .loop import is_nothing, reached, tape_for, write_takes
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
from .states import MOST_KEPT, MOST_SAVED, Kept, MemberMark

if TYPE_CHECKING:
    from callboard.core.protocol import AgentRuntime


class MemberMemory(BaseModel):
    """What a member remembers of a conversation.

    Attributes:
        saved: What its agent's `save_beside_context` returned; None: nothing yet.
        context: The messages of its model context.
        asked: Number of the turn that it took last; 0: none since it was reset or loaded.
        marks: Where its context was after each of its last turns.
        kept: The different values of `saved` after these turns.
        lost: What it remembered up to this turn is in no mark any more; 0: before the first mark there was nothing.
        is_fork: Whether it has taken over the part that it had in another conversation.
    """

    saved: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    context: Log[LLMMessage] = Log()
    asked: int = 0
    marks: Log[MemberMark] = Log()
    kept: Log[Kept] = Log()
    lost: int = Field(default=0, exclude_if=not_)
    is_fork: bool = Field(default=False, exclude_if=not_)


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
        agent, state = await self._current(), self.state
        drafts = Drafts(self.runtime, message.run, (*message.inside, message.turn), agent.name)
        unheard = message.unheard_after(state.asked)
        heard = [said for said in unheard if isinstance(said, BaseChatMessage)]
        tape = tape_for(message.record)
        try:
            here = ContextScope(host, (self, conversation_of(self.id)))
            with self._shows_questions(message), taping(tape), here:
                said = await speak(agent, heard, ctx.cancellation_token, drafts.show)
            await drafts.flush()
            await self._remember(agent)
        except BaseException as error:
            self._doubt(agent)
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
            self._begin_marks(message.turn - 1)
        self._mark(message.turn)
        await write_takes(self.runtime, message.run, tape)
        answer = Answer(
            turn=message.turn,
            attempt=drafts.attempt,
            messages=said,
            drafts=drafts.first,
            is_team=self._is_team,
        )
        await tell_all_of(self, answer, ctx.sender, message_id=answer_id(message.turn, ctx.message_id))

    def _shows_questions(self, message: Speak) -> ContextScope[Noting | None]:
        """What the agent asks people during the turn is seen by those who read the run."""
        runtime = cast("RedisAgentRuntime", self.runtime)
        turn = (*message.inside, message.turn)
        return ContextScope(noting, ShownQuestions(runtime, message.run, turn, self._prototype.name))

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
        """What its agent's `save_state` returns, for a manager of an older version, which can't read it by itself."""
        return Saved(state=dict(await (await self._current()).save_state()))

    @rpc
    async def on_load(self, message: LoadConversation, ctx: MessageContext) -> Accepted:
        """Take over a state, or try to."""
        agent = await (self._made(MemberMemory()) if message.is_trial else self._current())
        await agent.load_state(message.state)
        if not message.is_trial:
            self.state.asked = 0
            await self._remember(agent)
            self._begin_marks(0)
            self._mark(0, is_taken=False)
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
        part = message.part
        given, state = MemberMemory.model_validate({**part.data, **part.logs}), self.state
        state.saved, state.asked, state.lost = given.saved, given.asked, given.lost
        state.is_fork = True
        for field in ("context", "marks", "kept"):
            log = getattr(state, field)
            log.clear()
            log.extend(getattr(given, field))
        self._agent = None

    def _begin_marks(self, lost: int) -> None:
        """What marks say of turns up to this one is not so any more."""
        self.state.marks.clear()
        self.state.kept.clear()
        self.state.lost = lost

    def _mark(self, turn: int, is_taken: bool = True) -> None:
        """What it remembers is what it had after this turn, and after those that others take next."""
        state, most = self.state, cast("RedisAgentRuntime", self.runtime).settings.fork_turns
        number, is_nothing = self._number_of_saved(), state.saved is None
        state.marks.append(
            MemberMark(
                turn=turn, context=len(state.context), kept=number, is_whole=is_nothing, is_taken=is_taken
            )
        )
        if len(state.marks) > most:
            state.marks.trim(keep=most)
            state.lost = state.marks[0].turn - 1

    def _number_of_saved(self) -> int:
        """Under which number forks find what is saved now; 0: nothing is, or too much for every turn."""
        kept, saved = self.state.kept, self.state.saved
        if saved is None:
            return 0
        if not kept or kept[-1].saved != saved:
            if len(json.dumps(saved, default=str)) > MOST_SAVED:
                return 0
            kept.append(Kept(number=kept[-1].number + 1 if kept else 1, saved=saved))
            kept.trim(keep=MOST_KEPT)
        return kept[-1].number

    async def _forget(self, token: CancellationToken, lost: int) -> None:
        agent = await self._current()
        await reset_participant(agent, token)
        self.state.asked = 0
        await self._remember(agent)
        self._begin_marks(lost)
        self._mark(lost + 1 if lost else 0, is_taken=False)

    # The agent of this conversation

    async def saved(self, stored: StoredState) -> dict[str, Any]:
        """What the agent's `save_state` returns for a state that was committed, in whatever process the agent is.

        Raises:
            StateError: What is stored does not fit any more.
        """
        restore_state(self, stored.data or None, stored.logs)
        return dict(await (await self._current()).save_state())

    async def _current(self) -> Participant:
        """The agent as the last commit left it, wherever that was."""
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


ATTEMPT_BYTES: Final = 8  # of the name of an attempt
MOST_WAITING: Final = 1000  # pieces of a member that is faster than the server


def tag_of(turn: tuple[int, ...]) -> str:
    """What the drafts of a turn, and of the turns inside it, are tagged with."""
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
    """

    def __init__(self, runtime: RedisAgentRuntime, stream: str, turn: tuple[int, ...], source: str) -> None:
        self.stream = stream
        self._runtime = runtime
        self._turn = turn
        self._source = source

    def asked(self, input_id: str, question: CheckedQuestion[Any]) -> list[Shown]:
        """What is written with a question: its details only where they are not too large for an event."""
        details: dict[str, Any] = json.loads(question.details) if question.details else {}
        if len(question.details) > MOST_DETAILS:
            details = {"kind": details.get("kind", ""), OMITTED: True}
        event = InputRequestedEvent(
            id=f"{input_id}:asked",
            source=self._source,
            request_id=input_id,
            content=question.text[:MOST_DETAILS],
            choices=list(question.choices),
            to=list(question.to),
            answer_schema=json.loads(question.schema),
            details=details,
            timeout=question.timeout,
        )
        return [self._shown(event)]

    async def ended(self, input_id: str) -> None:
        """Shows what came of a question."""
        request = await self._runtime.inputs.get(input_id)
        await self._runtime.write_run(self.stream, [self._shown(answered(request, self._source))], now=True)

    def _shown(self, event: InputRequestedEvent | InputAnsweredEvent) -> Shown:
        return Shown(
            turn=self._turn, source=self._source, attempt="", messages=[event], is_final=True, is_aside=True
        )


def answered(request: InputRequest, source: str) -> InputAnsweredEvent:
    """What came of a question that is not open any more."""
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
