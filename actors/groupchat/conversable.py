"""The agent that chats with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from callboard.agents.base import BaseChatAgent
from callboard.models.base import ChatCompletionClient, ToolLike
from callboard.models.types import CreateResult

from .agent import Agent, Message
from .chatting import Chatting
from .content import text_of
from .context_variables import ContextVariables
from .errors import GroupChatDeclarationError, MessageError
from .events import TextEvent
from .functions import FunctionMap, execute
from .histories import Histories, kept_message
from .membership import Membership
from .model_client import LLMConfig, client_of
from .offering import Offering
from .replies import Reply, by_functions, by_model, human_input, termination_or_human
from .rules import ReplyRule, check_trigger, is_triggered
from .stream import IOStream
from .transforms import TransformMessages
from .usage import ModelUsage
from .waiting import value_of, wait_for

HumanInputMode = Literal["ALWAYS", "NEVER", "TERMINATE"]
MODES: Final = ("ALWAYS", "NEVER", "TERMINATE")
SYSTEM_MESSAGE: Final = "You are a helpful AI assistant."
MOST_REPLIES: Final = 100
TERMINATE: Final = "TERMINATE"


class ConversableAgent(Membership, Chatting, Offering, BaseChatAgent):
    """An agent that chats with other agents, with AG2's names. Whatever waits has an async twin, whose name begins with a_.

    It answers a message by the first of its reply functions that has an answer: those that were registered, the last one
    first; then a person or the end, as `human_input_mode` says; then its functions, where they are called; then its model;
    else `default_auto_reply`.

    In a `GroupChat` it can be a member in this process, or on the bus.

    Args:
        name: A Python identifier.
        system_message: What its model is told first.
        is_termination_msg: Whether a message that it receives ends the chat; None: the text "TERMINATE" does.
        max_consecutive_auto_reply: How often it answers somebody without a person; None: 100 times.
        human_input_mode: "ALWAYS": a person is asked each time; "TERMINATE": at the end, and when the number of automatic
            answers is reached; "NEVER".
        function_map: Functions that it executes, by name; they may be async.
        llm_config: Its model: a client, AG2's dictionary, or None.
        default_auto_reply: Its answer if nothing else answers.
        description: What it can do, for those who choose who speaks; None: the system message.
        silent: Whether what it says is not shown; None: the chat says so.
        context_variables: What it knows beside the messages.
        model_client_cls: Classes that `llm_config` may name.

    Raises:
        AgentNameError: The name is no identifier (a ValueError).
        GroupChatDeclarationError: There is no such mode, or no such model (a ValueError).
    """

    def __init__(
        self,
        name: str,
        system_message: str | None = SYSTEM_MESSAGE,
        is_termination_msg: Callable[[Message], bool] | None = None,
        max_consecutive_auto_reply: int | None = None,
        human_input_mode: HumanInputMode = "TERMINATE",
        function_map: FunctionMap | None = None,
        llm_config: LLMConfig = None,
        default_auto_reply: str | Message = "",
        description: str | None = None,
        *,
        silent: bool | None = None,
        context_variables: ContextVariables | None = None,
        model_client_cls: Any = None,
    ) -> None:
        super().__init__(name, (system_message or "") if description is None else description)
        if human_input_mode not in MODES:
            raise GroupChatDeclarationError(
                f"human_input_mode is {human_input_mode!r}; it can be one of {list(MODES)}."
            )
        self.system_message = system_message or ""
        self.human_input_mode = human_input_mode
        self.llm_config = llm_config
        self.context_variables = ContextVariables() if context_variables is None else context_variables
        self.transforms: TransformMessages | None = None
        self.usage = ModelUsage()
        self.silent = silent
        self.is_silent: bool | None = False
        self.stop_reason: str | None = None
        self.client: ChatCompletionClient | None = client_of(llm_config, model_client_cls)
        self.llm_tools: list[ToolLike | Mapping[str, Any]] = []
        self._functions = dict(function_map or {})
        self._is_termination_msg = is_termination_msg or says_terminate
        self._default_auto_reply = default_auto_reply
        self._most_replies = (
            MOST_REPLIES if max_consecutive_auto_reply is None else max_consecutive_auto_reply
        )
        self._most_replies_to: dict[Agent | None, int] = {}
        self._replies_to: dict[Agent | None, int] = {}
        self._histories = Histories()
        self._answers_to: dict[Agent, bool] = {}
        self.human_inputs: list[str] = []
        self._rules = [
            ReplyRule([Agent, None], function) for function in (termination_or_human, by_functions, by_model)
        ]

    # What it knows

    @property
    def description(self) -> str:
        """What it can do, for those who choose who speaks."""
        return self._description

    @description.setter
    def description(self, description: str) -> None:
        self._description = description

    @property
    def chat_messages(self) -> Histories:
        """The messages of its conversations, by the agent at the other end."""
        return self._histories

    @property
    def function_map(self) -> dict[str, Callable[..., Any]]:
        """The functions that it executes, by name."""
        return self._functions

    def update_system_message(self, system_message: str) -> None:
        """Tell its model something else."""
        self.system_message = system_message

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

    def reset(self) -> None:
        """Forget all conversations and counts."""
        self.clear_history()
        self._replies_to.clear()
        self._answers_to.clear()

    def who_pays(self) -> Sequence[ConversableAgent]:
        """The agents that a chat with this one is paid for: itself."""
        return [self]

    def prepare_chat(
        self, other: ConversableAgent, clear_history: bool, *, both: bool = True, answers: bool = True
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

    # Automatic answers

    def is_termination_msg(self, message: Message) -> bool:
        """Whether a message ends the chat."""
        return bool(self._is_termination_msg(message))

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

    def note_answer(self, result: CreateResult) -> None:
        """Its model, or one that was asked for it, has answered."""
        self.usage.add("model" if self.client is None else self.client.model, result)

    def register_reply(
        self,
        trigger: Any,
        reply_func: Callable[..., Any],
        position: int = 0,
        config: Any = None,
        *,
        remove_other_reply_funcs: bool = False,
        **_: Any,
    ) -> None:
        """Let a function answer.

        Args:
            trigger: Whom it answers, see `check_trigger`.
            reply_func: Called with this agent and ``messages=``, ``sender=``, ``config=``; may be async. It returns whether
                its answer counts, and the answer; None as the answer ends the chat.
            position: Its place among the reply functions; 0: it is asked first.
            config: Passed to it.
            remove_other_reply_funcs: Whether nothing else answers from now on.

        Raises:
            GroupChatDeclarationError: The trigger is none (a ValueError).
        """
        check_trigger(trigger)
        if remove_other_reply_funcs:
            self._rules.clear()
        self._rules.insert(position, ReplyRule(trigger, reply_func, config))

    async def a_get_human_input(self, prompt: str) -> str:
        """Ask the person behind this agent."""
        text = await human_input(prompt)
        self.human_inputs.append(text)
        return text

    async def a_generate_reply(
        self,
        messages: Sequence[Message] | None = None,
        sender: Agent | None = None,
        exclude: Sequence[Any] = (),
    ) -> Reply:
        """Its answer.

        Args:
            messages: The conversation; None: the one with the sender.
            sender: Whom it answers.
            exclude: Reply functions that are not asked.

        Returns:
            A text, a message, or None: the chat is over.
        """
        given = messages if messages is not None else self._histories[sender] if sender is not None else []
        for rule in list(self._rules):
            if rule.function in exclude or not is_triggered(rule.trigger, sender):
                continue
            answer = rule.function(self, messages=given, sender=sender, config=rule.config)
            is_final, reply = await value_of(answer)
            if is_final:
                return reply
        return self._default_auto_reply

    def generate_reply(self, messages: Sequence[Message] | None = None, sender: Agent | None = None) -> Reply:
        """Its answer; see `a_generate_reply`."""
        return wait_for(self.a_generate_reply(messages, sender))

    # Sending

    async def a_send(
        self,
        message: str | Message,
        recipient: ConversableAgent,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Say something to somebody.

        Args:
            message: A text, or a message.
            recipient: To whom.
            request_reply: Whether an answer is wanted; None: as the chat has it.
            silent: Whether it is not shown.

        Raises:
            MessageError: There is nothing in it (a ValueError).
        """
        self._keep(message, "assistant", self, recipient)
        await recipient.a_receive(message, self, request_reply, silent)

    async def a_receive(
        self,
        message: str | Message,
        sender: Agent,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Hear something, and answer if that is wanted; see `a_send`."""
        kept = self._keep(message, "user", sender, sender)
        if not (silent if self.silent is None else self.silent):
            IOStream.get_default().send(TextEvent(sender.name, self.name, kept))
        if request_reply is False or (request_reply is None and not self._answers_to.get(sender, True)):
            return
        reply = await self.a_generate_reply(sender=sender)
        if reply is not None and isinstance(sender, ConversableAgent):
            await self.a_send(reply, sender, silent=silent)

    def send(
        self,
        message: str | Message,
        recipient: ConversableAgent,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Say something to somebody; see `a_send`."""
        wait_for(self.a_send(message, recipient, request_reply, silent))

    def receive(
        self,
        message: str | Message,
        sender: Agent,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Hear something; see `a_send`."""
        wait_for(self.a_receive(message, sender, request_reply, silent))

    def _keep(self, message: str | Message, role: str, author: Agent, other: Agent) -> Message:
        kept = kept_message(message, role, author.name)
        if kept is None:
            raise MessageError(author.name, "it has neither a content nor a call.")
        self._histories[other].append(kept)
        return kept

    async def a_execute_function(self, func_call: Mapping[str, Any]) -> tuple[bool, Message]:
        """Execute a function of its `function_map`; whether that succeeded, and the message that says so."""
        name = func_call.get("name", "")
        is_done, text = await execute(self._functions, name, func_call.get("arguments", ""))
        return is_done, {"name": name, "role": "function", "content": text}


def says_terminate(message: Message) -> bool:
    """Whether the text of a message is "TERMINATE"."""
    return text_of(message.get("content")) == TERMINATE
