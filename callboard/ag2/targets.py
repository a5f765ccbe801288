"""Targets of handoffs: agents, chats, functions, the manager's model and the user; and targets from plain data."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

from callboard.groupchat.context_variables import ContextStr, ContextVariables
from callboard.groupchat.errors import GroupChatDeclarationError
from callboard.groupchat.messages import Agent, Message, names_of

from .handoffs import (
    SpeakerSelectionResult,
    TransitionTarget,
    Whereabouts,
    check_target,
    check_variables,
    not_by_itself,
)


@dataclass(frozen=True)
class AgentNameTarget(TransitionTarget):
    """The agent of a name.

    Args:
        agent_name: Its name.
    """

    kind: ClassVar[str] = "agent"

    agent_name: str

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """The agent."""
        return SpeakerSelectionResult(agent_name=self.agent_name)

    def display_name(self) -> str:
        """Its name."""
        return self.agent_name

    def names(self) -> list[str]:
        """The same."""
        return [self.agent_name]

    def dump(self) -> dict[str, Any]:
        """As plain data."""
        return {**super().dump(), "agent_name": self.agent_name}

    __str__ = TransitionTarget.__str__


class AgentTarget(AgentNameTarget):
    """An agent. It is kept by its name.

    Args:
        agent: The agent.

    Raises:
        GroupChatDeclarationError: It is none (a TypeError and a ValueError).
    """

    def __init__(self, agent: Agent) -> None:
        _check_agents([agent])
        super().__init__(agent.name)

    def __repr__(self) -> str:
        return f"AgentTarget({self.agent_name!r})"


@dataclass(frozen=True, init=False)
class RandomAgentTarget(TransitionTarget):
    """Any of some agents but the one who hands over; where there is no other, the chat is over.

    Args:
        agents: These.

    Raises:
        GroupChatDeclarationError: One is no agent (a TypeError and a ValueError).
    """

    kind: ClassVar[str] = "random"

    agent_names: tuple[str, ...]

    def __init__(self, agents: Sequence[Agent]) -> None:
        _check_agents(agents)
        object.__setattr__(self, "agent_names", tuple(names_of(agents)))

    @classmethod
    def of(cls, names: Sequence[str]) -> RandomAgentTarget:
        """The target of these names."""
        made = cls(())
        object.__setattr__(made, "agent_names", tuple(names))
        return made

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """One of them."""
        others = [name for name in self.agent_names if name != at.current]
        if not others:
            return SpeakerSelectionResult(terminate=True)
        return SpeakerSelectionResult(agent_name=random.choice(others))

    def display_name(self) -> str:
        """For people."""
        return "a random agent"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "random_agent"

    def names(self) -> list[str]:
        """The agents."""
        return list(self.agent_names)

    def dump(self) -> dict[str, Any]:
        """As plain data."""
        return {**super().dump(), "agent_names": list(self.agent_names)}

    __str__ = TransitionTarget.__str__


def _check_agents(agents: Sequence[object]) -> None:
    for agent in agents:
        if not isinstance(agent, Agent):
            raise GroupChatDeclarationError(
                f"A {type(agent).__name__} is no agent: give the agent itself, or AgentNameTarget('name')."
            )


@dataclass(frozen=True)
class StayTarget(TransitionTarget):
    """The agent who hands over goes on. After a function that is who called it; in AG2 it is the hidden executor."""

    kind: ClassVar[str] = "stay"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """The same agent."""
        return SpeakerSelectionResult(agent_name=at.current)

    def display_name(self) -> str:
        """For people."""
        return "Stay"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "stay"

    def __str__(self) -> str:
        return "Stay with agent"


@dataclass(frozen=True)
class TerminateTarget(TransitionTarget):
    """The chat is over."""

    kind: ClassVar[str] = "terminate"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """No agent."""
        return SpeakerSelectionResult(terminate=True)

    def display_name(self) -> str:
        """For people."""
        return "Terminate"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "terminate"

    def __str__(self) -> str:
        return "Terminate"


@dataclass(frozen=True)
class RevertToUserTarget(TransitionTarget):
    """The user's agent."""

    kind: ClassVar[str] = "revert_to_user"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """The user's agent.

        Raises:
            GroupChatDeclarationError: The pattern has none (a ValueError).
        """
        if at.user is None:
            raise GroupChatDeclarationError("RevertToUserTarget needs a user: give the pattern a user_agent.")
        return SpeakerSelectionResult(agent_name=at.user)

    def display_name(self) -> str:
        """For people."""
        return "Revert to User"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "revert_to_user"

    def __str__(self) -> str:
        return "Revert to User"


@dataclass(frozen=True)
class AskUserTarget(TransitionTarget):
    """A person is asked who is next."""

    kind: ClassVar[str] = "ask_user"

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """By hand."""
        return SpeakerSelectionResult(speaker_selection_method="manual")

    def display_name(self) -> str:
        """For people."""
        return "Ask User"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "ask_user"

    def __str__(self) -> str:
        return "Ask User"


FILLED: Final = "is_filled"


class GroupManagerSelectionMessage(ABC):
    """The last message to the manager's model when it chooses; ``{agentlist}`` is replaced by the names."""

    @abstractmethod
    def get_message(self, context_variables: Mapping[str, Any]) -> str:
        """The text, with ``{agentlist}``."""
        ...


@dataclass(frozen=True)
class GroupManagerSelectionMessageString(GroupManagerSelectionMessage):
    """A fixed text.

    Args:
        message: The text.
    """

    message: str

    def get_message(self, context_variables: Mapping[str, Any]) -> str:
        """The text."""
        return self.message


@dataclass(frozen=True)
class GroupManagerSelectionMessageContextStr(GroupManagerSelectionMessage):
    """A text with context variables in it.

    Args:
        context_str_template: The text, with variables in braces.
    """

    context_str_template: str

    def get_message(self, context_variables: Mapping[str, Any]) -> str:
        """The text with the values."""
        values = {name: value for name, value in context_variables.items() if name != "agentlist"}
        return ContextStr(self.context_str_template).format(values)


@dataclass(frozen=True)
class GroupManagerTarget(TransitionTarget):
    """The manager's model chooses who is next: among the agents and the user.

    In AG2 it may choose the hidden executor and the helpers as well.

    Args:
        selection_message: What it is told last; None: as the group chat has it.
    """

    kind: ClassVar[str] = "group_manager"

    selection_message: GroupManagerSelectionMessage | None = None

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """By the model."""
        message = self.selection_message
        prompt = None if message is None else message.get_message(at.context_variables)
        return SpeakerSelectionResult(speaker_selection_method="auto", prompt=prompt)

    def display_name(self) -> str:
        """For people."""
        return "the group manager"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "group_manager"

    def dump(self) -> dict[str, Any]:
        """As plain data.

        Raises:
            GroupChatDeclarationError: Its message is of a class of your own (a ValueError).
        """
        match self.selection_message:
            case None:
                return super().dump()
            case GroupManagerSelectionMessageString(message=text):
                return {**super().dump(), "message": text}
            case GroupManagerSelectionMessageContextStr(context_str_template=text):
                return {**super().dump(), "message": text, FILLED: True}
            case other:
                raise GroupChatDeclarationError(
                    f"A {type(other).__name__} can't travel in a message: use a text."
                )

    __str__ = TransitionTarget.__str__


@dataclass(frozen=True)
class FunctionTargetMessage:
    """A message of a function to an agent.

    Args:
        content: The text.
        msg_target: The agent.
    """

    content: str
    msg_target: Agent


@dataclass(frozen=True)
class FunctionTargetResult:
    """The decision of a function.

    Args:
        messages: What it tells agents: messages, or a text for the agent who is next (else for the one who hands over).
        context_variables: Variables that change.
        target: Who is next.

    Raises:
        GroupChatDeclarationError: One of them is of another kind (a TypeError and a ValueError).
    """

    messages: Sequence[FunctionTargetMessage] | str | None = None
    context_variables: ContextVariables | None = None
    target: TransitionTarget | None = None

    def __post_init__(self) -> None:
        check_variables(self.context_variables)
        if self.target is not None:
            check_target(self.target)
        told: Any = self.messages
        if told is None or isinstance(told, str):
            return
        if not isinstance(told, Sequence) or not all(isinstance(one, FunctionTargetMessage) for one in told):
            raise GroupChatDeclarationError(
                "The messages of a FunctionTargetResult are a text, or a list of FunctionTargetMessage(text, agent)."
            )


@dataclass(frozen=True, init=False)
class FunctionTarget(TransitionTarget):
    """A function of yours decides who is next; the manager calls it.

    It is called with the text of the last message and the context variables, may be async, and returns a
    FunctionTargetResult. In AG2 it is for what is done after work; here it is for conditions as well. On the bus what it
    decided is recorded, so that it is called once.

    Args:
        incoming_fn: The function. Its name is that of the target: no two functions of a group have one name.

    Raises:
        GroupChatDeclarationError: It is no function (a ValueError).
    """

    kind: ClassVar[str] = "function"

    fn_name: str
    fn: Callable[..., Any]

    def __init__(self, incoming_fn: Callable[..., Any]) -> None:
        if not callable(incoming_fn):
            raise GroupChatDeclarationError("FunctionTarget is made of a function.")
        object.__setattr__(self, "fn", incoming_fn)
        object.__setattr__(self, "fn_name", getattr(incoming_fn, "__name__", type(incoming_fn).__name__))

    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """Its function is called instead.

        Raises:
            GroupChatDeclarationError: Always (a ValueError).
        """
        raise GroupChatDeclarationError(
            f"The function {self.fn_name!r} decided for another function: let it name an agent."
        )

    def display_name(self) -> str:
        """Name of the function."""
        return self.fn_name

    def dump(self) -> dict[str, Any]:
        """As plain data: by its name."""
        return {**super().dump(), "name": self.fn_name}

    def __str__(self) -> str:
        return f"Transfer to tool {self.fn_name}"


@dataclass(frozen=True)
class _ChatTarget(TransitionTarget):
    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """A helper agent takes its place before.

        Raises:
            GroupChatDeclarationError: It was given elsewhere (a ValueError).
        """
        raise not_by_itself(self)

    def needs_agent_wrapper(self) -> bool:
        """A helper agent lets it chat, and returns to the one who handed over."""
        return True

    def dump(self) -> NoReturn:
        """Not possible.

        Raises:
            GroupChatDeclarationError: Always (a ValueError).
        """
        raise not_by_itself(self)


@dataclass(frozen=True)
class NestedChatTarget(_ChatTarget):
    """Chats one after the other; the summary of the last one is said in the group.

    Each takes place between copies of its agents, so that chats side by side never mix; no agent remembers it afterwards.

    Args:
        nested_chat_config: "chat_queue" with the chats. Each has "recipient", and may have "sender" (else the helper),
            "message" (a text, or a function of recipient, messages, sender and config; for the first one else what was
            said last in the group; one without a message does not take place), "max_turns", "summary_method",
            "summary_args" and "carryover" (texts that the message ends with; the summaries of the chats before follow).
            "config" is passed to functions.

    Raises:
        GroupChatDeclarationError: There is no such queue, or a chat has no agent as its recipient (a TypeError and a
            ValueError).
    """

    kind: ClassVar[str] = "nested_chat"

    nested_chat_config: dict[str, Any]

    def __post_init__(self) -> None:
        config: Any = self.nested_chat_config
        queue = config.get("chat_queue") if isinstance(config, Mapping) else None
        if not isinstance(queue, list | tuple) or not all(isinstance(chat, Mapping) for chat in queue):
            raise GroupChatDeclarationError(
                "NestedChatTarget needs its chats: {'chat_queue': [{'recipient': agent}]}."
            )
        for number, chat in enumerate(queue, 1):
            people = [chat.get("recipient"), *([] if chat.get("sender") is None else [chat["sender"]])]
            if not all(isinstance(one, Agent) for one in people):
                raise GroupChatDeclarationError(
                    f"Chat {number} of a NestedChatTarget needs agents: {{'recipient': agent}}."
                )

    def display_name(self) -> str:
        """For people."""
        return "a nested chat"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "nested_chat"

    def __str__(self) -> str:
        return "Transfer to nested chat"


@dataclass(frozen=True)
class GroupChatConfig:
    """A group chat in a group chat.

    Args:
        pattern: Its pattern.
        messages: How it begins.
        max_rounds: How many messages it has at most.

    Raises:
        GroupChatDeclarationError: The pattern is none, or there is no message (a TypeError and a ValueError).
    """

    pattern: Any  # a Pattern, which builds on targets
    messages: list[Message] | str
    max_rounds: int = 20

    def __post_init__(self) -> None:
        if not hasattr(self.pattern, "for_conversation") or isinstance(self.pattern, Agent):
            raise GroupChatDeclarationError(
                f"A GroupChatConfig needs a pattern, and no {type(self.pattern).__name__}."
            )
        if not isinstance(self.messages, str) and not self.messages:
            raise GroupChatDeclarationError("A group chat begins with a message: there is none.")


@dataclass(frozen=True)
class GroupChatTarget(_ChatTarget):
    """A group chat of its own; its summary is said in the group.

    Args:
        group_chat_config: The group chat. Its agents are copied for it.
    """

    kind: ClassVar[str] = "group_chat"

    group_chat_config: GroupChatConfig

    def display_name(self) -> str:
        """For people."""
        return "a group chat"

    def normalized_name(self) -> str:
        """A part of the name of the tool."""
        return "group_chat"

    def __str__(self) -> str:
        return "Transfer to group chat"


@dataclass(frozen=True)
class ReplyResult:
    """The result of an agent's function: an answer for the model, and perhaps who is next and what changes.

    Args:
        message: The answer.
        target: Who is next; None: the agent who called.
        context_variables: Variables that change.

    Raises:
        GroupChatDeclarationError: The message is no text, the target none, or the variables no mapping (a TypeError and a
            ValueError). The model that called the function is told so.
    """

    message: str
    target: TransitionTarget | None = None
    context_variables: ContextVariables | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.message, str):  # pyright: ignore[reportUnnecessaryIsInstance] - programs without types
            raise GroupChatDeclarationError(
                f"The message of a ReplyResult is a text, and no {type(self.message).__name__}: str(...) makes one."
            )
        if self.target is not None:
            check_target(self.target)
        check_variables(self.context_variables)

    def __str__(self) -> str:
        return self.message


PLAIN: Final[Mapping[str, type[TransitionTarget]]] = {
    one.kind: one for one in (AskUserTarget, RevertToUserTarget, StayTarget, TerminateTarget)
}


def load_target(data: Mapping[str, Any], functions: Mapping[str, FunctionTarget]) -> TransitionTarget:
    """The target of what `dump` returned.

    Args:
        data: The plain data.
        functions: The functions that are known, by name; no other is called.

    Raises:
        GroupChatDeclarationError: It is none (a ValueError).
    """
    match data:
        case {"kind": AgentNameTarget.kind, "agent_name": str(name)}:
            return AgentNameTarget(name)
        case {"kind": RandomAgentTarget.kind, "agent_names": list(names)}:
            return RandomAgentTarget.of([str(name) for name in names])
        case {"kind": GroupManagerTarget.kind, "message": str(text)}:
            filled = GroupManagerSelectionMessageContextStr(text)
            return GroupManagerTarget(
                filled if data.get(FILLED) else GroupManagerSelectionMessageString(text)
            )
        case {"kind": GroupManagerTarget.kind}:
            return GroupManagerTarget()
        case {"kind": FunctionTarget.kind, "name": str(name)} if name in functions:
            return functions[name]
        case {"kind": FunctionTarget.kind, "name": str(name)}:
            raise GroupChatDeclarationError(
                f"The function {name!r} is no target of a condition of this group: give it to an OnCondition, an "
                "OnContextCondition or an after-work of an agent."
            )
        case {"kind": str(kind)} if kind in PLAIN:
            return PLAIN[kind]()
        case _:
            raise GroupChatDeclarationError(f"This is no target: {data!r:.80}.")
