"""The agent that chats with others, with AG2's two kinds of it: the assistant, and the one that speaks for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from callboard.models.base import ChatCompletionClient, ToolLike
from callboard.models.types import CreateResult

from .context_variables import ContextVariables
from .errors import GroupChatDeclarationError
from .events import IOStream, TextEvent, value_of, wait_for
from .handoffs import Handoffs, OnCondition, OnContextCondition
from .membership import Membership
from .messages import Agent, Histories, Message, text_of, with_both_names
from .model import ModelConfig, ModelUsage, TransformMessages, client_of
from .peer import Chatting, Counting, HumanInputMode, Offering, Peer, Remembering, Reply
from .replies import (
    Answered,
    FunctionMap,
    ReplyRule,
    Update,
    by_functions,
    by_model,
    check_trigger,
    execute,
    human_input,
    is_triggered,
    termination_or_human,
)

MODES: Final = ("ALWAYS", "NEVER", "TERMINATE")
SYSTEM_MESSAGE: Final = "You are a helpful AI assistant."
TERMINATE: Final = "TERMINATE"


class ConversableAgent(Membership, Chatting, Counting, Remembering, Offering):
    """An agent that chats with other agents, with AG2's names. Whatever waits has an async twin, whose name begins with a_.

    It answers a message by the first of its reply functions that has an answer: those that were registered, the last one
    first; then a person or the end, as `human_input_mode` says; then its functions, where they are called; then its model;
    else `default_auto_reply`.

    In a `GroupChat` it can be a member in this process, or on the bus.

    Args:
        name: A Python identifier.
        system_message: What its model is told first.
        is_termination_msg: Whether a message that it receives ends the chat; None: the text "TERMINATE" does. It finds the
            text under "content" and "text", and who said it under "name" and "sender".
        max_consecutive_auto_reply: How often it answers somebody without a person; None: 100 times.
        human_input_mode: "ALWAYS": a person is asked each time; "TERMINATE": at the end, and when the number of automatic
            answers is reached; "NEVER".
        function_map: Functions that it executes, by name; they may be async.
        llm_config: Its model: a client, an LLMConfig, AG2's dictionary, or None.
        default_auto_reply: Its answer if nothing else answers.
        description: What it can do, for those who choose who speaks; None: the system message.
        silent: Whether what it says is not shown; None: the chat says so.
        context_variables: What it knows beside the messages.
        model_client_cls: Classes that `llm_config` may name.
        code_execution_config: False, or None; for code let a `CodeExecutorAgent` take part.
        functions: Functions that its model may call; in a pattern the group executes them.
        handoffs: To whom it hands over in a pattern.
        update_agent_state_before_reply: What it does to itself before each answer: an UpdateSystemMessage, or functions of
            the agent and the messages, which may be async.

    Attributes:
        handoffs: To whom it hands over in a pattern.

    Raises:
        AgentSettingError: The name is no identifier (a ValueError).
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
        llm_config: ModelConfig = None,
        default_auto_reply: str | Message = "",
        description: str | None = None,
        *,
        silent: bool | None = None,
        context_variables: ContextVariables | None = None,
        model_client_cls: Any = None,
        code_execution_config: Literal[False] | None = False,
        functions: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
        handoffs: Handoffs | None = None,
        update_agent_state_before_reply: Update | Sequence[Update] = (),
    ) -> None:
        super().__init__(name, (system_message or "") if description is None else description)
        if human_input_mode not in MODES:
            raise GroupChatDeclarationError(
                f"human_input_mode is {human_input_mode!r}; it can be one of {list(MODES)}."
            )
        if code_execution_config:
            raise GroupChatDeclarationError(
                "A ConversableAgent runs no code blocks: let a CodeExecutorAgent take part in the chat instead."
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
        self.part = None
        self._updates = _listed(update_agent_state_before_reply)
        self.handoffs = Handoffs() if handoffs is None else handoffs
        self.client: ChatCompletionClient | None = client_of(llm_config, model_client_cls)
        self.llm_tools: list[ToolLike | Mapping[str, Any]] = []
        self._functions = dict(function_map or {})
        self._is_termination_msg = is_termination_msg or says_terminate
        self._default_auto_reply = default_auto_reply
        if max_consecutive_auto_reply is not None:
            self.update_max_consecutive_auto_reply(max_consecutive_auto_reply)
        self._rules = [
            ReplyRule([Agent, None], function) for function in (termination_or_human, by_functions, by_model)
        ]
        for function in _listed(functions):
            self.register_for_llm()(function)

    def unrecorded_clients(self) -> Sequence[ChatCompletionClient]:
        """None: it is asked through a client that records."""
        return ()

    # What it knows

    @property
    def description(self) -> str:
        """What it can do, for those who choose who speaks."""
        return self._description

    @description.setter
    def description(self, description: str) -> None:
        self._description = description

    def update_system_message(self, system_message: str) -> None:
        """Tell its model something else."""
        self.system_message = system_message

    def reset(self) -> None:
        """Forget all conversations and counts."""
        self.clear_history()
        self.reset_consecutive_auto_reply_counter()
        self._answers_to.clear()

    def begin_anew(self) -> None:
        """Remember nothing; what was remembered so far stays as it is with whoever shares it."""
        self._histories, self._answers_to, self.human_inputs = Histories(), {}, []
        self._replies_to, self._most_replies_to = {}, {}

    def register_handoff(self, condition: OnCondition | OnContextCondition) -> None:
        """Hand over in a pattern; the same as `handoffs.add`."""
        self.handoffs.add(condition)

    def register_handoffs(self, conditions: Sequence[OnCondition | OnContextCondition]) -> None:
        """Hand over in a pattern; the same as `handoffs.add_many`."""
        self.handoffs.add_many(conditions)

    # Automatic answers

    def is_termination_msg(self, message: Message) -> bool:
        """Whether a message ends the chat."""
        return bool(self._is_termination_msg(with_both_names(message)))

    @property
    def ends_by_itself(self) -> bool:
        """Whether it was given an `is_termination_msg`."""
        return self._is_termination_msg is not says_terminate

    def note_answer(self, result: CreateResult, model: str | None = None) -> None:
        """Its model, or one that was asked for it, has answered."""
        self.usage.add(model or ("model" if self.client is None else self.client.model), result)

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
        text = await human_input(prompt, self.name)
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
        for update in self._updates:
            await value_of(update(self, given))
        if self.part is not None:
            given = self.part.seen(given)
            if (handed_over := self.part.hand_over(self, given)) is not None:
                return handed_over
        for rule in list(self._rules):
            if rule.function in exclude or not is_triggered(rule.trigger, sender):
                continue
            answer = rule.function(self, messages=given, sender=sender, config=rule.config)
            answered: Answered = await value_of(answer)
            if answered[0]:
                return answered[1]
        return self._default_auto_reply

    def generate_reply(self, messages: Sequence[Message] | None = None, sender: Agent | None = None) -> Reply:
        """Its answer; see `a_generate_reply`."""
        return wait_for(self.a_generate_reply(messages, sender))

    # Sending

    async def a_send(
        self,
        message: str | Message,
        recipient: Peer,
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
        if reply is not None and isinstance(sender, Peer):
            await self.a_send(reply, sender, silent=silent)

    def send(
        self,
        message: str | Message,
        recipient: Peer,
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

    async def a_execute_function(self, func_call: Mapping[str, Any]) -> tuple[bool, Message]:
        """Execute a function of its `function_map`; whether that succeeded, and the message that says so."""
        name = func_call.get("name", "")
        is_done, text = await execute(self._functions, name, func_call.get("arguments", ""))
        return is_done, {"name": name, "role": "function", "content": text}


def says_terminate(message: Message) -> bool:
    """Whether the text of a message is "TERMINATE"."""
    return text_of(message.get("content")) == TERMINATE


def _listed(functions: Callable[..., Any] | Sequence[Callable[..., Any]]) -> list[Callable[..., Any]]:
    return [functions] if callable(functions) else list(functions)


TASK: Final = (
    "You are a helpful AI assistant. Solve the task step by step, and say how you found the answer. Use the functions "
    "that you have where they help. When the task is solved, end your answer with TERMINATE."
)
ASSISTANT_ABOUT: Final = "An assistant that answers questions, and solves tasks step by step."


class AssistantAgent(ConversableAgent):
    """A ConversableAgent that is told to solve a task, and asks no person.

    In AG2 it is told to write code that the other agent runs. No ConversableAgent runs code here, so it is not.

    Args:
        name: A Python identifier.
        system_message: What its model is told first.
        llm_config: Its model: a client, an LLMConfig, or AG2's dictionary.
        human_input_mode: See ConversableAgent.
        description: What it can do, for those who choose who speaks; None: the system message, or what is true of the one
            that it has by itself.
        **options: See ConversableAgent.

    Raises:
        AgentSettingError, GroupChatDeclarationError: See ConversableAgent.
    """

    DEFAULT_SYSTEM_MESSAGE: Final = TASK
    DEFAULT_DESCRIPTION: Final = ASSISTANT_ABOUT

    def __init__(
        self,
        name: str,
        system_message: str | None = TASK,
        llm_config: ModelConfig = None,
        *,
        human_input_mode: HumanInputMode = "NEVER",
        description: str | None = None,
        **options: Any,
    ) -> None:
        if description is None and system_message == TASK:
            description = ASSISTANT_ABOUT
        super().__init__(
            name,
            system_message,
            human_input_mode=human_input_mode,
            llm_config=llm_config,
            description=description,
            **options,
        )


PROXY_ABOUT: Final[Mapping[HumanInputMode, str]] = {
    "ALWAYS": "A person who can answer questions about the task.",
    "TERMINATE": "Somebody who executes functions, and asks a person at the end.",
    "NEVER": "Somebody who does nothing but execute functions.",
}


class UserProxyAgent(ConversableAgent):
    """A ConversableAgent that asks a person whenever it gets a message, and has no model.

    In AG2 it runs the code blocks that it is sent, unless `code_execution_config` is False. Here it never does: let a
    `CodeExecutorAgent` take part in the chat.

    Args:
        name: A Python identifier.
        human_input_mode: See ConversableAgent.
        llm_config: Its model; usually it has none.
        system_message: What its model is told first, if it has one.
        description: What it can do, for those who choose who speaks; None: as its `human_input_mode` says.
        **options: See ConversableAgent.

    Raises:
        AgentSettingError, GroupChatDeclarationError: See ConversableAgent.
    """

    def __init__(
        self,
        name: str,
        *,
        human_input_mode: HumanInputMode = "ALWAYS",
        llm_config: ModelConfig = False,
        system_message: str | None = "",
        description: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            name,
            system_message,
            human_input_mode=human_input_mode,
            llm_config=llm_config,
            description=PROXY_ABOUT.get(human_input_mode) if description is None else description,
            **options,
        )
