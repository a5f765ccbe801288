"""An agent as those who chat with it know it: its histories, its counts, its functions, and the chats that it begins."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from callboard.agents.base import BaseChatAgent
from callboard.messages.chat import BaseChatMessage
from callboard.models.base import ChatCompletionClient, ToolLike
from callboard.models.recorded import recorded
from callboard.models.types import CreateResult
from callboard.tools import FunctionTool, Tool
from callboard.tools.schema import name_of

from .context_variables import ContextVariables, with_variables
from .errors import MessageError
from .events import value_of, wait_for
from .handoffs import HandoffPart
from .messages import Agent, Histories, Message, check_agents, kept_message, text_of
from .model import ModelUsage, TransformMessages, added_up, to_model

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
    part: HandoffPart | None
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


class Remembering(Peer):
    """The part of a `ConversableAgent` that remembers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._histories = Histories()

    @property
    def chat_messages(self) -> Histories:
        """The messages of its conversations, by the agent at the other end."""
        return self._histories

    def last_message(self, agent: Agent | None = None) -> Message | None:
        """The last message of a conversation.

        Args:
            agent: With whom; None: the only one it talked to.

        Returns:
            None: there is none.

        Raises:
            MessageError: It talked to several, or never to this one (a ValueError).
        """
        if agent is None:
            if len(self._histories) > 1:
                raise MessageError(self.name, "it has several conversations: say which one.")
            agent = next(iter(self._histories), None)
            return None if agent is None else self._histories[agent][-1]
        if not self._histories[agent]:
            raise MessageError(self.name, f"it has no conversation with {agent.name!r}.")
        return self._histories[agent][-1]

    def chat_messages_for_summary(self, agent: Agent) -> list[Message]:
        """The messages that a summary of the conversation with an agent is made of."""
        return self._histories[agent]

    def clear_history(
        self, recipient: Agent | None = None, nr_messages_to_preserve: int | None = None
    ) -> None:
        """Forget messages; see `Histories.clear`."""
        self._histories.clear(recipient, nr_messages_to_preserve or 0)

    def _keep(self, message: str | Message, role: str, author: Agent, other: Agent) -> Message:
        kept = kept_message(message, role, author.name)
        if kept is None:
            raise MessageError(author.name, "it has neither a content nor a call.")
        self._histories[other].append(kept)
        return kept


MOST_REPLIES: Final = 100


class Counting(Peer):
    """The part of a `ConversableAgent` that counts its automatic answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most_replies = MOST_REPLIES
        self._most_replies_to: dict[Agent | None, int] = {}
        self._replies_to: dict[Agent | None, int] = {}

    def max_consecutive_auto_reply(self, sender: Agent | None = None) -> int:
        """How often it answers somebody without a person."""
        return self._most_replies_to.get(sender, self._most_replies)

    def update_max_consecutive_auto_reply(self, value: int, sender: Agent | None = None) -> None:
        """Change that number, for everybody or for one."""
        if sender is None:
            self._most_replies = value
            self._most_replies_to.clear()
        else:
            self._most_replies_to[sender] = value

    def auto_replies(self, sender: Agent | None) -> int:
        """How often it has answered somebody without a person."""
        return self._replies_to.get(sender, 0)

    def count_auto_reply(self, sender: Agent | None) -> None:
        """It answers somebody once more."""
        self._replies_to[sender] = self.auto_replies(sender) + 1

    def reset_consecutive_auto_reply_counter(self, sender: Agent | None = None) -> None:
        """Begin to count again; None: for everybody."""
        if sender is None:
            self._replies_to.clear()
        else:
            self._replies_to.pop(sender, None)

    def set_auto_replies(self, sender: Agent | None, count: int) -> None:
        """It has answered somebody so often without a person."""
        self._replies_to[sender] = count


F = TypeVar("F", bound=Callable[..., Any])


class Offering(Peer):
    """The part of a `ConversableAgent` that registers functions."""

    def register_function(self, function_map: Mapping[str, Callable[..., Any] | None]) -> None:
        """Let the agent execute functions, by name; None: no longer."""
        for name, function in function_map.items():
            if function is None:
                self._functions.pop(name, None)
            else:
                self._functions[name] = function

    def can_execute_function(self, name: str | list[str]) -> bool:
        """Whether it executes a function, or all of several."""
        return {name} <= set(self._functions) if isinstance(name, str) else set(name) <= set(self._functions)

    def register_for_execution(self, name: str | None = None) -> Callable[[F], F]:
        """A decorator: the agent executes the function when a message calls it."""

        def register(function: F) -> F:
            self._functions[name or function.__name__] = function
            return function

        return register

    def register_for_llm(
        self, *, name: str | None = None, description: str | None = None
    ) -> Callable[[F], F]:
        """A decorator: the agent's model may call the function, or the tool; whoever executes it answers.

        A parameter named ``context_variables`` is given by us, and not shown to the model.
        """

        def register(function: F) -> F:
            self.llm_tools.append(_tool(function, name, description))
            return function

        return register


def _tool(function: Any, name: str | None, description: str | None) -> Tool:
    if isinstance(function, Tool):
        return function
    text = description or (function.__doc__ or "").strip()
    return FunctionTool(with_variables(function), description=text, name=name or name_of(function))


@dataclass
class ChatResult:
    """What came of a chat.

    Attributes:
        chat_history: The messages, as the one who began it has them.
        summary: As `summary_method` makes it.
        cost: Tokens and dollars by model, in AG2's shape, with all that a model spent to choose speakers.
        human_input: What the person behind the one who began it said.
        stop_reason: Why it ended; None: nothing says so.
        chat_id: A number of its own.
    """

    chat_history: list[Message] = field(default_factory=list)
    summary: str | Message = ""
    cost: dict[str, Any] = field(default_factory=lambda: ModelUsage().cost())
    human_input: list[str] = field(default_factory=list)
    stop_reason: str | None = None
    chat_id: int = field(default_factory=lambda: uuid.uuid4().int)


Opening: TypeAlias = str | Message | Callable[..., Any] | None
Summary: TypeAlias = str | Callable[..., Any] | None

LAST_MESSAGE: Final = "last_msg"
REFLECTION: Final = "reflection_with_llm"
SUMMARISE: Final = "Summarize the conversation above. Leave out introductions, and add nothing."


class Chatting(Peer):
    """The part of a `ConversableAgent` that begins chats."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._answers_to: dict[Agent, bool] = {}
        self.human_inputs = []

    async def a_initiate_chat(
        self,
        recipient: Peer,
        clear_history: bool = True,
        silent: bool | None = False,
        max_turns: int | None = None,
        summary_method: Summary = LAST_MESSAGE,
        summary_args: dict[str, Any] | None = None,
        message: Opening = None,
        **context: Any,
    ) -> ChatResult:
        """Chat with another agent, or with a group through its manager.

        Args:
            recipient: The other agent.
            clear_history: Whether both first forget what they said to each other; with a manager, the whole group does.
            silent: Whether nothing is shown.
            max_turns: How often this one speaks at most; None: until one of them ends it.
            summary_method: "last_msg", "reflection_with_llm", a function of sender, recipient and arguments, or None.
            summary_args: For the summary; "summary_prompt" for a model's.
            message: What is said first: a text, a message, or a function of sender, recipient and context. None: a person
                says it.
            **context: For these functions.

        Returns:
            What came of it.

        Raises:
            GroupChatDeclarationError: The recipient is no agent (a ValueError).
        """
        check_agents([recipient])
        before = _used(self, recipient)
        self.prepare_chat(recipient, clear_history, answers=max_turns is None)
        self.is_silent = recipient.is_silent = silent
        for turn in range(1 if max_turns is None else max_turns):
            said = await (
                _first(self, recipient, message, context) if turn == 0 else _following(self, recipient)
            )
            if said is None:
                break
            await self.a_send(said, recipient, None if max_turns is None else True, silent)
        summary = await _summary(self, recipient, summary_method, {**(summary_args or {}), **context})
        return ChatResult(
            chat_history=list(self.chat_messages[recipient]),
            summary=summary,
            cost=_used(self, recipient).minus(before).cost(),
            human_input=list(self.human_inputs),
            stop_reason=recipient.stop_reason,
        )

    def initiate_chat(self, recipient: Peer, *args: Any, **kwargs: Any) -> ChatResult:
        """Chat with another agent; see `a_initiate_chat`."""
        return wait_for(self.a_initiate_chat(recipient, *args, **kwargs))

    def who_pays(self) -> Sequence[Peer]:
        """The agents that a chat with this one is paid for: itself."""
        return [self]

    def prepare_chat(
        self, other: Peer, clear_history: bool, *, both: bool = True, answers: bool = True
    ) -> None:
        """A chat begins.

        Args:
            other: With whom.
            clear_history: Whether what they have said to each other is forgotten.
            both: Whether the other one prepares as well.
            answers: Whether each answers what the other says.
        """
        self.reset_consecutive_auto_reply_counter(other)
        self._answers_to[other] = answers
        if clear_history:
            self.clear_history(other)
            self.human_inputs.clear()
        if both:
            other.prepare_chat(self, clear_history, both=False, answers=answers)


async def _first(me: Peer, recipient: Peer, message: Opening, context: dict[str, Any]) -> str | Message:
    if message is None:
        return await me.a_get_human_input("The first message: ")
    if callable(message):
        return cast("str | Message", await value_of(message(me, recipient, context)))
    return message


async def _following(me: Peer, recipient: Peer) -> str | Message | None:
    return await me.a_generate_reply(sender=recipient)


async def _summary(me: Peer, recipient: Peer, method: Summary, arguments: dict[str, Any]) -> str | Message:
    if method is None:
        return ""
    if callable(method):
        return cast("str", await value_of(method(me, recipient, arguments)))
    if method == REFLECTION:
        return await _reflection(me, recipient, arguments)
    last = recipient.chat_messages[me][-1:]
    return text_of(last[0].get("content")).replace("TERMINATE", "") if last else ""


async def _reflection(me: Peer, recipient: Peer, arguments: dict[str, Any]) -> str:
    author = recipient if recipient.client is not None else me
    if author.client is None:
        return ""
    prompt = {"role": "system", "content": arguments.get("summary_prompt", SUMMARISE)}
    messages = to_model([*recipient.chat_messages_for_summary(me), prompt], author.name)
    result = await recorded(author.client).create(messages)
    author.note_answer(result)
    return result.content if isinstance(result.content, str) else ""


def _used(*agents: Peer) -> ModelUsage:
    """What they and those behind them have used so far."""
    everybody = {id(agent): agent for one in agents for agent in one.who_pays()}
    return added_up(agent.usage for agent in everybody.values())
