"""A member of a team as an actor: it speaks when the manager asks it to, in whatever process it lives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import not_
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field

from callboard.agents.base import BaseChatAgent
from callboard.agents.copying import twin_of
from callboard.agents.team import Team
from callboard.broker.buried import Buried
from callboard.broker.redis.client.states import StoredState
from callboard.cancellation import CancellationToken
from callboard.context import ContextScope, MessageContext
from callboard.handlers import event, rpc
from callboard.log import Log
from callboard.memory.llm_messages import LLMMessage
from callboard.messages.base import BaseChatMessage
from callboard.routed import RoutedAgent
from callboard.runtime.asking import Noting, noting
from callboard.runtime.taping import taping
from callboard.state import restore_state

from .budget import overspent_by
from .drafts import Drafts
from .errors import RunBudgetExceededError, TeamMemberError, TeamNotRunError
from .local import Participant, reset_participant, speak
from .marks import MOST_KEPT, MOST_SAVED, Kept, MemberMark
from .orders import Accepted, Answer, Become, Forget, Load, ResetConversation, Save, Saved, Speak, Told
from .run_errors import answer_id, failure_by, failure_of, turn_answered
from .shown_questions import ShownQuestions
from .sizes import tell_all_of
from .state import is_nothing
from .steps import reached
from .takes import tape_for, write_takes

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime


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
            with self._shows_questions(message), taping(tape):
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
    async def on_save(self, message: Save, ctx: MessageContext) -> Saved:
        """What its agent's `save_state` returns, for a manager of an older version, which can't read it by itself."""
        return Saved(state=dict(await (await self._current()).save_state()))

    @rpc
    async def on_load(self, message: Load, ctx: MessageContext) -> Accepted:
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
