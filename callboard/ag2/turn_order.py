"""The next speaker of a pattern: one rule over what was said, for a chat in this process and for a team on the bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, cast

from callboard.groupchat.context_variables import ContextVariables, changes, snapshot, take_over
from callboard.groupchat.errors import GroupChatDeclarationError, NoEligibleSpeakerError
from callboard.groupchat.events import value_of
from callboard.groupchat.group_chat import GroupChat, Selector
from callboard.groupchat.manager import GroupChatManager
from callboard.groupchat.messages import (
    Agent,
    ConversationMessage,
    Message,
    Note,
    for_members,
    is_for,
    is_note,
    text_of,
    unsent,
)
from callboard.groupchat.selection import ThreadSelection
from callboard.groupchat.transitions import SelectionContext
from callboard.messages.chat import BaseChatMessage
from callboard.runtime.steps import NumberedStep, running_context
from callboard.teams.loop import Choice, Floor, SpeakerSelection

from .conditions import Known
from .handoffs import (
    NEXT_TARGET,
    OnContextCondition,
    SpeakerSelectionResult,
    TransitionTarget,
    Whereabouts,
    is_met,
)
from .hidden_agents import EXECUTOR
from .targets import AgentNameTarget, FunctionTarget, FunctionTargetResult, RevertToUserTarget, load_target


@dataclass(frozen=True)
class PatternPlan:
    """A pattern, as far as the rule needs it; the same for all its chats.

    Attributes:
        initial: Who speaks first.
        agents: Who takes part, the helpers included; not the user, and not the executor.
        user: The user's agent; None: there is none.
        after_works: What is done when an agent has spoken, by name.
        group_after_work: What is done else.
        functions: The functions that may decide, by name.
    """

    initial: str
    agents: tuple[str, ...]
    user: str | None
    after_works: Mapping[str, Sequence[OnContextCondition]]
    group_after_work: TransitionTarget
    functions: Mapping[str, FunctionTarget]


@dataclass(frozen=True)
class Speaks:
    """A step: an agent speaks."""

    name: str


@dataclass(frozen=True)
class HandsOver:
    """A step: an agent hands over.

    Attributes:
        target: To whom.
        current: Who hands over.
    """

    target: TransitionTarget
    current: str


@dataclass(frozen=True)
class Situation:
    """Where a chat stands.

    Attributes:
        messages: What was said.
        last_speaker: Who spoke last.
        has_begun: Whether anybody of the group was chosen before.
        context_variables: What the agents share.
    """

    messages: Sequence[Message]
    last_speaker: str
    has_begun: bool
    context_variables: ContextVariables


def next_step(plan: PatternPlan, at: Situation) -> Speaks | HandsOver:
    """Who is next, by the first of these that says so.

    1. The initial agent speaks first. 2. What was called is executed. 3. A function, or a condition on context variables,
    has named a target. 4. After functions, the agent who called them. 5. After the user, the agent who spoke before,
    unless the user has something to do after work. 6. What the agent does after work: the first that is available and
    met. 7. What the group does after work.

    Raises:
        GroupChatDeclarationError: No agent of the group has spoken, or a function named no target (a ValueError).
    """
    last = at.messages[-1] if at.messages else {}
    if not at.has_begun:
        return Speaks(plan.initial)
    if last.get("tool_calls"):
        return Speaks(EXECUTOR)
    current = _last_agent(plan, at.messages)
    is_outside = at.last_speaker not in (*plan.agents, EXECUTOR)
    # guard: who is outside the group names no target
    if NEXT_TARGET in last and not is_outside:
        return HandsOver(load_target(last[NEXT_TARGET], plan.functions), current)
    if last.get("role") == "tool":
        return Speaks(current)
    if is_outside:
        if plan.user is None or not plan.after_works.get(plan.user):
            return Speaks(current)
        current = plan.user
    return HandsOver(_after_work(plan, at, current), current)


def _last_agent(plan: PatternPlan, messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        name = message.get("name")
        if name in plan.agents:
            return str(name)
    raise GroupChatDeclarationError("Nobody of the group has spoken, and so nobody can go on.")


def _after_work(plan: PatternPlan, at: Situation, current: str) -> TransitionTarget:
    agent = Known(current, at.context_variables)
    for one in plan.after_works.get(current, ()):
        if is_met(one, agent, at.messages):
            return one.target
    return plan.group_after_work


TOLD: Final = "[FUNCTION_HANDOFF] - Reply from function {name}: \n\n {content}"


async def decide(
    target: FunctionTarget, at: Whereabouts, messages: Sequence[Message]
) -> tuple[TransitionTarget, list[Note]]:
    """Call the function of a target; on the bus what it decided is recorded, so that it is called once.

    Args:
        target: The target.
        at: Where the chat stands; its context variables are changed.
        messages: What was said.

    Returns:
        Who is next, and what is told to whom.

    Raises:
        GroupChatDeclarationError: It returned something else than a FunctionTargetResult with a target (a ValueError).
    """
    said = text_of(messages[-1].get("content")) if messages else ""
    step = NumberedStep.begin(f"target:{target.fn_name}")

    async def call() -> dict[str, Any]:
        before = snapshot(at.context_variables)
        result = await value_of(target.fn(said, at.context_variables))
        if not isinstance(result, FunctionTargetResult) or result.target is None:
            raise GroupChatDeclarationError(
                f"The function {target.fn_name!r} has to return a FunctionTargetResult with a target."
            )
        at.context_variables.update(result.context_variables or {})
        changed = {} if running_context() is None else changes(before, at.context_variables)
        return {"target": result.target.dump(), "told": _told(result, at), "changes": changed}

    decided = await (call() if step is None else step.run(call))
    # As for functions that agents call: the record of a dead attempt is read, and the manager's variables are as before it.
    # guard: what a function that decides has changed is changed when its record is read
    take_over(at.context_variables, decided["changes"])
    notes = [Note(to, _message(target.fn_name, content)) for to, content in decided["told"]]
    return load_target(decided["target"], {}), notes


def _told(result: FunctionTargetResult, at: Whereabouts) -> list[list[str]]:
    """Names and texts."""
    if not result.messages:
        return []
    if not isinstance(result.messages, str):
        return [[one.msg_target.name, one.content] for one in result.messages]
    to = at.current
    if isinstance(result.target, AgentNameTarget):
        to = result.target.agent_name
    elif isinstance(result.target, RevertToUserTarget) and at.user is not None:
        to = at.user
    return [[to, result.messages]]


def _message(function: str, content: str) -> Message:
    return {"role": "system", "name": function, "content": TOLD.format(name=function, content=content)}


@dataclass(frozen=True)
class NoHelpers:
    """Neither a model nor a person chooses a hidden agent.

    Attributes:
        names: Who may be chosen.
    """

    names: frozenset[str]

    def is_eligible(self, agent: Agent, ctx: SelectionContext) -> bool:
        """Whether it may."""
        return agent.name in self.names


@dataclass
class PatternChat(GroupChat):
    """A group chat in which the rule of patterns says who is next.

    Attributes:
        plan: The pattern.
        context_variables: What the agents share.
        has_begun: Whether anybody was chosen yet.
    """

    plan: PatternPlan = field(kw_only=True)
    context_variables: ContextVariables = field(kw_only=True)
    has_begun: bool = field(default=False, kw_only=True)
    _notes: list[Note] = field(default_factory=list, init=False, repr=False)
    _usual_prompt: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._usual_prompt = self.select_speaker_prompt_template

    async def a_select_speaker(self, last_speaker: Agent, selector: Selector) -> Agent:
        """Who speaks next; see `next_step`.

        Raises:
            NoEligibleSpeakerError: The chat is over.
            GroupChatDeclarationError: The target is not in the group (a ValueError).
        """
        at = Situation(self.messages, last_speaker.name, self.has_begun, self.context_variables)
        step = next_step(self.plan, at)
        self.has_begun = True
        result = await self._resolved(step)
        if result.terminate:
            raise NoEligibleSpeakerError("The chat is over.")
        if result.agent_name is not None:
            return self._named(result.agent_name)
        self.speaker_selection_method = result.speaker_selection_method or "auto"
        self.select_speaker_prompt_template = result.prompt or self._usual_prompt
        return await super().a_select_speaker(last_speaker, selector)

    async def _resolved(self, step: Speaks | HandsOver) -> SpeakerSelectionResult:
        if isinstance(step, Speaks):
            return SpeakerSelectionResult(agent_name=step.name)
        at, target = Whereabouts(step.current, self.plan.user, self.context_variables), step.target
        if isinstance(target, FunctionTarget):
            target, self._notes = await decide(target, at, self.messages)
            for note in self._notes:
                self._named(note.to)
        return target.resolve(at)

    def _named(self, name: str) -> Agent:
        agent = self.agent_by_name(name)
        if agent is None:
            raise GroupChatDeclarationError(f"The target {name!r} is not in the group: {self.agent_names}.")
        return agent

    def take_notes(self) -> list[Note]:
        """Notes for single members since the last time."""
        notes, self._notes = self._notes, []
        return notes

    def for_conversation(self) -> PatternChat:
        """The same for another conversation, in which nothing was said."""
        mine = copy(self)
        mine.messages, mine._notes, mine.has_begun = [], [], False
        mine.context_variables = deepcopy(self.context_variables)
        return mine


BEGUN: Final = "has_begun"
BASE: Final = "base_variables"


class PatternSelection(ThreadSelection):
    """Choice of speakers by the rule of patterns, in a conversation on the bus.

    The context variables are those of the declaration, or of a state that was loaded, changed as the messages of the thread
    say. What a function of a target has changed, and what it tells members, the manager says.

    Args:
        chat: The group chat, of this conversation alone.
        selector: Its manager.
    """

    def __init__(self, chat: PatternChat, selector: Selector) -> None:
        super().__init__(chat, selector)
        self._pattern = chat
        self._declared = deepcopy(chat.context_variables)
        self._base: dict[str, Any] | None = None
        self._before: dict[str, str] = {}

    def hear(self, said: BaseChatMessage) -> Agent | None:
        """A message becomes one of the group chat, and what it changes is changed."""
        # The members may be in other processes: a change reaches the manager by the message alone, before its rule looks.
        # guard: a manager knows what the messages of its thread have changed
        take_over(self._pattern.context_variables, said.metadata)
        return None if is_note(said) else super().hear(said)

    async def last_speaker(self, floor: Floor) -> Agent:
        """Who spoke last; the variables are as the thread says."""
        speaker = await super().last_speaker(floor)
        self._before = snapshot(self._pattern.context_variables)
        return speaker

    async def select(self, floor: Floor) -> Choice:
        """Who is next; the manager says what a function that decides has changed and tells."""
        choice = await super().select(floor)
        changed = changes(self._before, self._pattern.context_variables)
        notes = self._pattern.take_notes()
        if not notes and not changed:
            return choice
        said = [
            ConversationMessage(data=note.message, source=floor.team, metadata=for_members([note.to]))
            for note in notes
        ]
        if not said:
            said = [ConversationMessage(data={"content": ""}, source=floor.team, metadata=for_members([]))]
        said[0].metadata.update(changed)
        return Choice(choice.speakers, said=[*choice.said, *said], stop=choice.stop)

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """Refuse a task that can't be read, or whose metadata can't.

        Raises:
            GroupChatDeclarationError: It is one (a ValueError).
        """
        await super().check(messages, floor)
        for message in messages or ():
            try:
                take_over(ContextVariables(), message.metadata)
                is_for(floor.team, message)
            except (TypeError, ValueError, RecursionError) as error:
                raise GroupChatDeclarationError(
                    f"{unsent(message.source)} its metadata can't be read: {error}"
                ) from error

    async def reset(self) -> None:
        """Nothing was said."""
        await super().reset()
        self._base = None
        self._begin(False)

    async def save_state(self) -> Mapping[str, Any]:
        """Whether it has begun, and the variables that were loaded."""
        return {BEGUN: self._pattern.has_begun, **({} if self._base is None else {BASE: self._base})}

    async def load_state(self, state: Mapping[str, object]) -> None:
        """Take over what `save_state` returned; the thread is another one."""
        await self.reset()
        base = state.get(BASE)
        self._base = dict(base) if isinstance(base, Mapping) else None
        self._begin(bool(state.get(BEGUN)))

    def _begin(self, has_begun: bool) -> None:
        variables = self._declared if self._base is None else self._base
        self._pattern.has_begun = has_begun
        self._pattern.context_variables.clear()
        self._pattern.context_variables.update(deepcopy(dict(variables)))


class PatternManager(GroupChatManager):
    """A GroupChatManager whose chat is that of a pattern; a pattern makes it."""

    def new_selection(self) -> SpeakerSelection:
        """How speakers are chosen in a conversation of `team`."""
        return PatternSelection(cast("PatternChat", self.groupchat).for_conversation(), self)
