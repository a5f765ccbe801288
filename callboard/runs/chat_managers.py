"""The choice of who speaks next in a run: the RFC's protocol, the usual managers, and their strategy."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, Protocol, runtime_checkable

from callboard.agents.base import ChatAgent
from callboard.conditions.base import TerminationCondition
from callboard.errors import DeclarationError
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.events import value_of
from callboard.groupchat.group_chat import GroupChat, choose_manually
from callboard.groupchat.membership import GroupPeer
from callboard.groupchat.messages import Agent, Message, names_of
from callboard.groupchat.model import ModelConfig
from callboard.groupchat.selection import ThreadSelection
from callboard.teams.loop import Choice, Floor, SpeakerSelection

from .projection import SoFar


@runtime_checkable
class ChatManagerProtocol(Protocol):
    """Decides who speaks next. `get_next_agent` may be async; None ends the run.

    On the bus it is asked in the process of the run's manager, for all conversations: let it choose by what it is shown.
    """

    def register_agent(self, agent: Agent | list[Agent]) -> None:
        """Take an agent in, or several."""
        ...

    def get_next_agent(self, response: Any) -> Agent | Awaitable[Agent | None] | None:
        """Who speaks next.

        Args:
            response: The run so far, a `SoFar`: `messages`, `last_speaker`, `context_variables`.
        """
        ...


class ChatManager:
    """The base of the managers here.

    Args:
        agents: The agents; those that `run` is given are added.
        is_termination_msg: Whether a message ends the run.
        terminate_on: What else ends it.
    """

    def __init__(
        self,
        agents: Sequence[Agent] = (),
        *,
        is_termination_msg: Callable[[Message], bool] | None = None,
        terminate_on: TerminationCondition | None = None,
    ) -> None:
        self.agents: list[Agent] = list(agents)
        self.is_termination_msg = is_termination_msg
        self.terminate_on = terminate_on

    @property
    def agent_names(self) -> list[str]:
        """The names of the agents."""
        return names_of(self.agents)

    def register_agent(self, agent: Agent | list[Agent]) -> None:
        """Take an agent in, or several; one that is known stays where it is."""
        for one in agent if isinstance(agent, list) else [agent]:
            if one.name not in self.agent_names:
                self.agents.append(one)

    def agent_named(self, name: str) -> Agent | None:
        """The agent of a name; None: there is none, as for a name from outside."""
        return next((agent for agent in self.agents if agent.name == name), None)


class RoundRobinChatManager(ChatManager):
    """The agents speak one after the other; after a message from outside, the first; after a handoff, whom it was to."""

    def get_next_agent(self, response: SoFar) -> Agent:
        """The one behind who spoke last, or whom that one has handed over to."""
        handed = self.agent_named(response.last_target)
        if handed is not None:
            return handed
        last = self.agent_named(response.last_speaker)
        place = -1 if last is None else self.agents.index(last)
        return self.agents[(place + 1) % len(self.agents)]


class RandomChatManager(ChatManager):
    """Any of the agents speaks.

    Args:
        allow_repeat_speaker: Whether an agent may speak twice in a row.
        seed: Makes the choices the same each time.
        **options: See ChatManager.
    """

    def __init__(
        self,
        agents: Sequence[Agent] = (),
        *,
        allow_repeat_speaker: bool = True,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(agents, **options)
        self._may_repeat = allow_repeat_speaker
        self._seed = seed

    def get_next_agent(self, response: SoFar) -> Agent:
        """Any."""
        last = response.last_speaker
        among = [agent for agent in self.agents if self._may_repeat or agent.name != last] or self.agents
        # By the number of messages: a choice that is made again, because a process died, is the same.
        chosen = random if self._seed is None else random.Random(f"{self._seed}:{len(response.messages)}")
        return chosen.choice(among)


class ManualChatManager(ChatManager):
    """A person chooses; where none is chosen, the next one in the order speaks."""

    async def get_next_agent(self, response: SoFar) -> Agent:
        """Whose number the person enters."""
        chosen = await choose_manually(self.agents)
        return chosen or RoundRobinChatManager(self.agents).get_next_agent(response)


class HandoffChatManager(ChatManager):
    """Who was handed over to speaks; one that does not hand over speaks again. The first agent begins."""

    def get_next_agent(self, response: SoFar) -> Agent:
        """The target of the last handoff, or who spoke last.

        Raises:
            DeclarationError: The target is none of the agents (a ValueError).
        """
        target = response.last_target
        found = self.agent_named(target or response.last_speaker)
        if target and found is None:
            raise DeclarationError(
                f"The conversation was handed over to {target!r}, who is none of {self.agent_names}: "
                "give it to run() as well."
            )
        return found or self.agents[0]


class SelectorChatManager(ChatManager):
    """A model chooses; what it uses is part of the cost of the run.

    Args:
        agents: See ChatManager.
        llm_config: The model: a client, an LLMConfig, or AG2's dictionary.
        allow_repeat_speaker: Whether an agent may speak twice in a row.
        name: Of the manager, as the source of what its model says.
        **options: See ChatManager.
    """

    def __init__(
        self,
        agents: Sequence[Agent] = (),
        *,
        llm_config: ModelConfig = None,
        allow_repeat_speaker: bool = True,
        name: str = "selector",
        **options: Any,
    ) -> None:
        super().__init__(agents, **options)
        self._leader = ConversableAgent(name, llm_config=llm_config, human_input_mode="NEVER")
        self._may_repeat = allow_repeat_speaker
        if self._leader.client is None:
            raise DeclarationError("A SelectorChatManager needs a model: give it an llm_config.")

    async def get_next_agent(self, response: SoFar) -> Agent:
        """Whom the model names."""
        chat = self._chat()
        for message in response.messages:
            chat.messages.append(dict(message))
        last = self.agent_named(response.last_speaker) or GroupPeer(response.last_speaker or "user")
        return await chat.a_select_speaker(last, self._leader)

    def new_selection(self) -> SpeakerSelection:
        """The same as a strategy, which shows what the model says and uses."""
        return ThreadSelection(self._chat(), self._leader)

    def _chat(self) -> GroupChat:
        return GroupChat(
            copy(self.agents), speaker_selection_method="auto", allow_repeat_speaker=self._may_repeat
        )


NOBODY: Final = "The chat manager chose nobody."


class ManagedSelection(SpeakerSelection):
    """Whom the chat manager names.

    Args:
        manager: The chat manager.
    """

    def __init__(self, manager: ChatManagerProtocol) -> None:
        self._manager = manager
        self._so_far = SoFar()

    async def select(self, floor: Floor) -> Choice:
        """Ask the manager."""
        self._so_far.add(floor.thread[len(self._so_far.said) :])
        agent: object = await value_of(self._manager.get_next_agent(self._so_far))
        if agent is None:
            return Choice(stop=NOBODY)
        if not isinstance(agent, ChatAgent):
            where = f"{type(self._manager).__name__}.get_next_agent() returned {agent!r:.80}"
            raise DeclarationError(
                where, "return one of the agents, such as self.agents[0], or None for the end."
            )
        return Choice([agent.name])

    async def reset(self) -> None:
        """Nothing was said."""
        self._so_far = SoFar()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """The thread is another one."""
        await self.reset()
