"""The state of a team as plain data, in AutoGen's shape; what AutoGen saved loads here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from callboard.conditions.base import TerminationCondition
from callboard.memory.llm_messages import LLMMessage
from callboard.messages.base import BaseChatMessage
from callboard.messages.factory import MessageFactory

from .errors import TeamStateError
from .loop import TeamPlan
from .selection import SpeakerSelection
from .state import ConversationState
from .thread import Entry, heard_by

VERSION: Final = "1.0.0"


class MemberState(BaseModel):
    """What a member remembers; AutoGen's ChatAgentContainerState.

    Attributes:
        agent_state: What its `save_state` returned.
        message_buffer: What was said, and this member has not heard.
    """

    agent_state: dict[str, Any] = Field(default_factory=dict)
    message_buffer: list[dict[str, Any]] = Field(default_factory=list)
    type: str = "ChatAgentContainerState"
    version: str = VERSION


class Own(BaseModel):
    """What AutoGen loses when it saves a team.

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
