"""Memory of a member, marks of a conversation after each turn, and the state of a team as plain data, in AutoGen's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import not_
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from callboard.conditions.base import TerminationCondition
from callboard.core.state import Log
from callboard.memory.llm_messages import LLMMessage
from callboard.messages.chat import BaseChatMessage
from callboard.messages.events import MessageFactory

from .errors import TeamStateError
from .loop import ConversationState, Entry, SpeakerSelection, Speaking, TeamPlan, heard_by, is_nothing


class TurnMark(BaseModel):
    """A conversation as its manager knew it when a turn, or the turns of several who spoke at once, had ended.

    There is one for each turn, so what is 0 or empty is not written.

    Attributes:
        turn: Number of that turn, the highest of several; what was loaded or forked has a mark as well.
        by: Who spoke.
        run_id: The run that it belongs to.
        asked: The turn of a larger team that it belongs to; 0: none.
        thread: How many entries the thread had.
        context: How many messages the strategy's model context had.
        turns, heard, round_start, selection, termination, called_off: As in the manager's state.
    """

    model_config = ConfigDict(frozen=True)

    turn: int
    by: tuple[str, ...] = Field(default=(), exclude_if=not_)
    run_id: str = Field(default="", exclude_if=not_)
    asked: int = Field(default=0, exclude_if=not_)
    thread: int = 0
    context: int = Field(default=0, exclude_if=not_)
    turns: int = Field(default=0, exclude_if=not_)
    heard: dict[str, int] = Field(default_factory=dict)
    round_start: int = 0
    selection: dict[str, Any] = Field(default_factory=dict, exclude_if=not_)
    termination: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    called_off: dict[str, list[Speaking]] = Field(default_factory=dict, exclude_if=not_)


class MemberMark(BaseModel):
    """A member when it had taken a turn.

    Attributes:
        turn: Number of the turn; of what was loaded 0; of what is left when it has forgotten everything, the next turn.
        context: How many messages its model context had.
        kept: What it remembered beside that, as the number of a `Kept`; 0: see the next one.
        is_whole: Whether there was nothing beside that. False without a number: it was too large to be kept for every turn.
        is_taken: Whether it was this member's turn.
    """

    model_config = ConfigDict(frozen=True)

    turn: int
    context: int
    kept: int = Field(default=0, exclude_if=not_)
    is_whole: bool = True
    is_taken: bool = Field(default=True, exclude_if=bool)


class Kept(BaseModel):
    """Memory of a member beside its context, for as many turns as it stayed the same.

    Attributes:
        number: Rises with each.
        saved: It.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    saved: dict[str, Any]


class MemberMemory(BaseModel):
    """Memory of a member in a conversation, stored with each of its turns.

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


VERSION: Final = "1.0.0"


class MemberState(BaseModel):
    """State of a member as it is saved; AutoGen's ChatAgentContainerState.

    Attributes:
        agent_state: What its `save_state` returned.
        message_buffer: What was said, and this member has not heard.
    """

    agent_state: dict[str, Any] = Field(default_factory=dict)
    message_buffer: list[dict[str, Any]] = Field(default_factory=list)
    type: str = "ChatAgentContainerState"
    version: str = VERSION


class Own(BaseModel):
    """The part of a saved team that AutoGen loses.

    Attributes:
        last_turn: As in ConversationState.
        heard: As in ConversationState.
        by: Who said each message of the thread.
        is_said: Whether the others hear it.
        round_start: As in ConversationState.
        context: As in ConversationState.
        termination: What the termination condition remembers.
    """

    last_turn: int = 0
    heard: dict[str, int] = Field(default_factory=dict)
    by: list[str] = Field(default_factory=list)
    is_said: list[bool] = Field(default_factory=list)
    round_start: int = 0
    context: list[LLMMessage] = Field(default_factory=list)
    termination: dict[str, Any] | None = None


async def dump_team(
    plan: TeamPlan,
    state: ConversationState,
    selection: SpeakerSelection,
    termination: TerminationCondition | None,
    agent_states: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A conversation of a team as plain data.

    Args:
        plan: The team.
        state: What the turn loop remembers.
        selection: The strategy.
        termination: The termination condition.
        agent_states: What the members' `save_state` returned, by name.
    """
    states: dict[str, Any] = {}
    for name, saved in agent_states.items():
        unheard = heard_by(name, state.thread[state.heard.get(name, 0) :])
        member = MemberState(agent_state=dict(saved), message_buffer=[message.dump() for message in unheard])
        states[name] = member.model_dump()
    states[plan.name] = await _dump_manager(state, selection, termination)
    return {"type": "TeamState", "version": VERSION, "agent_states": states}


async def _dump_manager(
    state: ConversationState, selection: SpeakerSelection, termination: TerminationCondition | None
) -> dict[str, Any]:
    own = Own(
        last_turn=state.last_turn,
        heard=state.heard,
        by=[entry.by for entry in state.thread],
        is_said=[entry.is_said for entry in state.thread],
        round_start=state.round_start,
        context=list(state.context),
        termination=None if termination is None else dict(await termination.save_state()),
    )
    return {
        "type": f"{type(selection).__name__.removesuffix('Selection')}ManagerState",
        "version": VERSION,
        "message_thread": [entry.message.dump() for entry in state.thread],
        "current_turn": state.turns,
        **await selection.save_state(),
        "callboard": own.model_dump(mode="json"),
    }


async def load_team(
    plan: TeamPlan,
    state: ConversationState,
    selection: SpeakerSelection,
    termination: TerminationCondition | None,
    saved: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Bring a conversation to what `dump_team` returned, or AutoGen's `save_state`.

    Args:
        plan: The team.
        state: Is changed.
        selection: Is changed.
        termination: Is changed.
        saved: The plain data.

    Returns:
        What the members' `load_state` takes, by name.

    Raises:
        TeamStateError: It does not fit the team (a ValueError); nothing is changed then.
    """
    states = saved.get("agent_states")
    if saved.get("type") != "TeamState" or not isinstance(states, Mapping):
        raise TeamStateError(plan.name, "it is not what a team's save_state returns")
    names = [member.name for member in plan.members]
    for name in (*names, plan.name):
        if name not in states:
            raise TeamStateError(plan.name, f"Agent state for {name} not found in the saved state")
    try:
        members = {name: MemberState.model_validate(states[name]) for name in names}
        manager = dict(states[plan.name])
        own = Own.model_validate(manager["callboard"]) if "callboard" in manager else None
        entries = _entries(manager.get("message_thread", []), own, names, plan.factory)
        turns = int(manager.get("current_turn", 0))
    except (ValidationError, TypeError, ValueError) as error:
        raise TeamStateError(plan.name, str(error)) from error
    try:
        await selection.load_state(manager)
    except (KeyError, TypeError, ValueError) as error:
        raise TeamStateError(plan.name, f"{type(error).__name__}: {error}") from error
    state.context.clear()
    state.context.extend(own.context if own else ())
    if termination is not None and own is not None and own.termination is not None:
        await termination.load_state(own.termination)
    state.thread.clear()
    state.thread.extend(entries)
    # A strategy reads all of what AutoGen saved as new, for its context is not in there.
    state.turns, state.round_start = turns, own.round_start if own else 0
    state.speaking.clear()
    state.last_turn = max(state.last_turn, own.last_turn if own else 0)
    state.heard = dict(own.heard) if own else _heard_by_buffers(members, entries)
    return {name: member.agent_state for name, member in members.items()}


def _entries(
    thread: Sequence[Mapping[str, Any]], own: Own | None, names: Sequence[str], factory: MessageFactory
) -> list[Entry]:
    messages = [factory.create(data) for data in thread]
    if own is None:  # AutoGen's: a chat message was said by its source
        return [
            Entry(
                message=message,
                by=message.source if message.source in names else "",
                is_said=isinstance(message, BaseChatMessage),
            )
            for message in messages
        ]
    flags = zip(messages, own.by, own.is_said, strict=True)
    return [Entry(message=message, by=by, is_said=is_said) for message, by, is_said in flags]


def _heard_by_buffers(members: Mapping[str, MemberState], entries: Sequence[Entry]) -> dict[str, int]:
    """How far each member has heard: all but as many messages as its buffer has."""
    heard = {}
    for name, member in members.items():
        position, left = len(entries), len(member.message_buffer)
        while left and position:
            position -= 1
            left -= len(heard_by(name, entries[position : position + 1]))
        heard[name] = position
    return heard
