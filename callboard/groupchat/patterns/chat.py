"""A group chat whose agents hand over to each other."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, field

from callboard.groupchat.agent import Agent
from callboard.groupchat.auto import Selector
from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import NoEligibleSpeakerError, SpeakerSelectionError
from callboard.groupchat.group_chat import GroupChat
from callboard.groupchat.handoffs.function_target import FunctionTarget
from callboard.groupchat.handoffs.target import SpeakerSelectionResult, Whereabouts
from callboard.groupchat.notes import Note
from callboard.groupchat.policies import SelectionContext

from .deciding import decide
from .rule import HandsOver, Plan, Situation, Speaks, next_step


@dataclass(frozen=True)
class NoHelpers:
    """Neither a model nor a person chooses somebody who is hidden.

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

    plan: Plan = field(kw_only=True)
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
            SpeakerSelectionError: The target is not in the group (a ValueError).
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
            raise SpeakerSelectionError(f"The target {name!r} is not in the group: {self.agent_names}.")
        return agent

    def take_notes(self) -> list[Note]:
        """What is told to members alone since the last time."""
        notes, self._notes = self._notes, []
        return notes

    def for_conversation(self) -> PatternChat:
        """The same for another conversation, in which nothing was said."""
        mine = copy(self)
        mine.messages, mine._notes, mine.has_begun = [], [], False
        mine.context_variables = deepcopy(self.context_variables)
        return mine
