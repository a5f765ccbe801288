"""What the parts of a `ConversableAgent` know of each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from callboard.agents.base import BaseChatAgent
from callboard.messages.base import BaseChatMessage
from callboard.models.base import ChatCompletionClient, ToolLike
from callboard.models.types import CreateResult

from .agent import Agent, Message
from .context_variables import ContextVariables
from .handoffs.part import Part
from .histories import Histories
from .transforms import TransformMessages
from .usage import ModelUsage

Reply: TypeAlias = str | Message | None
HumanInputMode: TypeAlias = Literal["ALWAYS", "NEVER", "TERMINATE"]


class Peer(BaseChatAgent, ABC):
    """An agent that others chat with; `ConversableAgent` is the one.

    Attributes:
        client: Its model; None: it has none.
        system_message: What its model is told first.
        human_input_mode: When a person is asked.
        llm_tools: What its model may call.
        transforms: Change what its model reads.
        context_variables: What it knows beside the messages.
        usage: What its model has used.
        human_inputs: What people said, since the chat began.
        is_silent: Whether the chat under way is not shown.
        stop_reason: Why the group chat that it runs has ended.
        part: What it does in a group that hands over; None: it is in none.
    """

    client: ChatCompletionClient | None
    system_message: str
    human_input_mode: HumanInputMode
    llm_tools: list[ToolLike | Mapping[str, Any]]
    transforms: TransformMessages | None
    context_variables: ContextVariables
    usage: ModelUsage
    human_inputs: list[str]
    is_silent: bool | None
    stop_reason: str | None
    part: Part | None
    _functions: dict[str, Callable[..., Any]]

    @property
    @abstractmethod
    def chat_messages(self) -> Histories:
        """The messages of its conversations."""
        ...

    @property
    def function_map(self) -> dict[str, Callable[..., Any]]:
        """The functions that it executes, by name."""
        return self._functions

    @abstractmethod
    def chat_messages_for_summary(self, agent: Agent) -> list[Message]:
        """The messages that a summary of the conversation with an agent is made of."""
        ...

    @abstractmethod
    def is_termination_msg(self, message: Message) -> bool:
        """Whether a message ends the chat."""
        ...

    @abstractmethod
    def max_consecutive_auto_reply(self, sender: Agent | None = None) -> int:
        """How often it answers somebody without a person."""
        ...

    @abstractmethod
    def auto_replies(self, sender: Agent | None) -> int:
        """How often it has done so."""
        ...

    @abstractmethod
    def count_auto_reply(self, sender: Agent | None) -> None:
        """It does so once more."""
        ...

    @abstractmethod
    def set_auto_replies(self, sender: Agent | None, count: int) -> None:
        """It has done so that often."""
        ...

    @abstractmethod
    def reset_consecutive_auto_reply_counter(self, sender: Agent | None = None) -> None:
        """Begin to count again; None: for everybody."""
        ...

    @abstractmethod
    def note_answer(self, result: CreateResult, model: str | None = None) -> None:
        """A model has answered for it; without a name, its own."""
        ...

    @abstractmethod
    def who_pays(self) -> Sequence[Peer]:
        """The agents that a chat with this one is paid for."""
        ...

    @abstractmethod
    def prepare_chat(
        self, other: Peer, clear_history: bool, *, both: bool = True, answers: bool = True
    ) -> None:
        """A chat begins."""
        ...

    @abstractmethod
    def clear_history(
        self, recipient: Agent | None = None, nr_messages_to_preserve: int | None = None
    ) -> None:
        """Forget messages."""
        ...

    @abstractmethod
    def begin_anew(self) -> None:
        """Remember nothing; what was remembered so far stays as it is with whoever shares it."""
        ...

    @abstractmethod
    def reset(self) -> None:
        """Forget all conversations and counts."""
        ...

    @abstractmethod
    def take_note(self, message: BaseChatMessage) -> None:
        """Hear something without an answer, as a member of a team."""
        ...

    @abstractmethod
    async def a_get_human_input(self, prompt: str) -> str:
        """Ask the person behind this agent."""
        ...

    @abstractmethod
    async def a_generate_reply(
        self,
        messages: Sequence[Message] | None = None,
        sender: Agent | None = None,
        exclude: Sequence[Any] = (),
    ) -> Reply:
        """Its answer."""
        ...

    @abstractmethod
    async def a_send(
        self,
        message: str | Message,
        recipient: Peer,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Say something to somebody."""
        ...

    @abstractmethod
    async def a_receive(
        self,
        message: str | Message,
        sender: Agent,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Hear something, and answer if that is wanted."""
        ...
