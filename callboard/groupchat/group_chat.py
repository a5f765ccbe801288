"""The group chat: who takes part, what was said, and the rules by which a speaker is chosen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from .agent import Agent, Message
from .auto import Selector, choose_by_model
from .choosing import candidates
from .declaration import check, graph_of
from .group import Group
from .manual import choose_manually
from .mentions import mentioned_agents
from .notes import Note
from .waiting import wait_for


@dataclass
class GroupChat(Group):
    """Agents who share one conversation. A `GroupChatManager` runs it.

    Attributes:
        agents: Who takes part; no two have one name.
        messages: What was said, oldest first.
        max_round: How many messages a run has at most, the first one included.
        admin_name: Name of the agent who speaks after a KeyboardInterrupt.
        func_call_filter: Whether after a message that calls functions only those speak who can execute them.
        select_speaker_message_template: System message for the model that chooses; `{roles}` and `{agentlist}` are
            replaced by str.format.
        select_speaker_prompt_template: What that model is told last; `{agentlist}` is replaced. None or "": the last
            message is repeated instead.
        select_speaker_auto_multiple_template: What it is told when it named several agents.
        select_speaker_auto_none_template: What it is told when it named none.
        speaker_selection_method: "auto" (a model chooses), "manual", "random" or "round_robin" in any case, or a function
            of the last speaker and this group chat, which may be async and returns an agent, a method, or None to end.
        max_retries_for_selecting_speaker: How often the model is asked again.
        allow_repeat_speaker: Whether somebody may speak twice in a row, or who may; None: yes.
        allowed_or_disallowed_speaker_transitions: For each agent those who may, or may not, speak next. An agent whose
            list is empty ends the chat. AG2 lets everybody speak then.
        speaker_transitions_type: "allowed" or "disallowed", in any case.
        enable_clear_history: Whether "clear history" in an answer clears histories.
        send_introductions: Whether everybody is told at the start who takes part.
        role_for_select_speaker_messages: Role of what the model is told; "system" or "user".
        select_speaker_transform_messages: Changes what the model reads.
        select_speaker_auto_verbose: Whether the model's answers are shown.
        select_speaker_auto_llm_config: The model that chooses; None: that of the manager.
        select_speaker_auto_model_client_cls: Classes of clients that this config names.
        eligibility_policies: Further rules of who may speak; all have to agree.

    Raises:
        GroupChatDeclarationError: It can't be like this (a ValueError).
        TransitionError: The transitions name somebody who is not in the group (a ValueError). AG2 lets them speak.
    """

    def __post_init__(self) -> None:
        if self.speaker_transitions_type is not None:
            self.speaker_transitions_type = self.speaker_transitions_type.lower()
        if self.allowed_or_disallowed_speaker_transitions is None and self.allow_repeat_speaker is None:
            self.allow_repeat_speaker = True
        check(self)
        self.select_speaker_prompt_template = self.select_speaker_prompt_template or None
        self.allowed_speaker_transitions_dict = graph_of(self)

    def for_conversation(self) -> GroupChat:
        """The same for another conversation, in which nothing was said."""
        mine = copy(self)
        mine.messages = []
        return mine

    def take_notes(self) -> list[Note]:
        """What is told to members alone since the last time; here: nothing."""
        return []

    # Choosing a speaker

    def manual_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """The one whom a person chooses; None: nobody."""
        return wait_for(self.a_manual_select_speaker(agents))

    async def a_manual_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """The one whom a person chooses; None: nobody."""
        return await choose_manually(self.agents if agents is None else agents)

    def random_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """Any of them."""
        return random.choice(self.agents if agents is None else agents)

    def select_speaker(self, last_speaker: Agent, selector: Selector) -> Agent:
        """Who speaks next; see `a_select_speaker`."""
        return wait_for(self.a_select_speaker(last_speaker, selector))

    async def a_select_speaker(self, last_speaker: Agent, selector: Selector) -> Agent:
        """Who speaks next.

        Where nothing is chosen by hand, the next one in the order of the group speaks, however "manual" is written; in AG2
        a model is asked if it is not written in lower case.

        Args:
            last_speaker: Who spoke last; it may be from outside.
            selector: The manager, whose model chooses.

        Raises:
            NoEligibleSpeakerError: Nobody may speak.
            SpeakerSelectionError: The group chat is set up in a way that can't work (a ValueError).
        """
        found = await candidates(self, last_speaker)
        if not found.method:
            return found.agents[0]
        if found.method == "auto":
            return await self.a_auto_select_speaker(last_speaker, selector, self.messages, found.agents)
        if found.method == "random":
            return self.random_select_speaker(found.agents) or found.agents[0]
        chosen = await choose_manually(found.agents) if found.method == "manual" else None
        return chosen or self.next_agent(last_speaker, found.agents)

    async def a_auto_select_speaker(
        self,
        last_speaker: Agent,
        selector: Selector,
        messages: Sequence[Message] | None,
        agents: Sequence[Agent] | None,
    ) -> Agent:
        """The one whom a model names; the next one in the order of the group, if it names nobody or several too often.

        Args:
            last_speaker: Who spoke last.
            selector: The manager.
            messages: What was said.
            agents: Who may be chosen; None: everybody.
        """
        among = self.agents if agents is None else agents
        name = await choose_by_model(self, selector, messages or [], among)
        return next((agent for agent in among if agent.name == name), None) or self.next_agent(
            last_speaker, among
        )

    def _mentioned_agents(self, message_content: Any, agents: Sequence[Agent] | None) -> dict[str, int]:
        """How often a text names each agent; AG2's name for `mentioned_agents`."""
        return mentioned_agents(message_content, self.agents if agents is None else agents)
