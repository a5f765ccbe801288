"""The agent that chats with others: its answers, by rules, a person, functions or a model, and the chats that it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from callboard.agents.base import BaseChatAgent, Response, copy_of
from callboard.core.cancellation import CancellationToken
from callboard.memory.contexts import Conversation
from callboard.messages.chat import BaseChatMessage, StopMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded
from callboard.models.types import CreateResult

from .chats import (
    SUMMARISE,
    Chat,
    ChatResult,
    FromNested,
    Opening,
    Summary,
    a_initiate_chats,
    first_message,
    initiate_chats,
    nested_reply,
    summary_of,
    used_by,
)
from .context_variables import ContextVariables, changes, snapshot, take_over
from .errors import GroupChatDeclarationError
from .events import IOStream, TerminationEvent, TextEvent, value_of, wait_for
from .membership import NO_REPLY, GroupMember, GroupRules
from .messages import Agent, ConversationMessage, Histories, Message, check_agents, text_of, with_both_names
from .model import (
    ModelConfig,
    ModelReading,
    ModelUsage,
    TransformMessages,
    client_of,
    from_model,
    prices_of,
    to_model,
)
from .replies import (
    AgentFunctions,
    Answered,
    AutoReplies,
    FunctionMap,
    GroupPart,
    Hook,
    Hooks,
    Reply,
    ReplyRule,
    Update,
    answer_calls,
    check_trigger,
    executables,
    execute,
    human_input,
    is_triggered,
    name_of_tool,
)

HumanInputMode: TypeAlias = Literal["ALWAYS", "NEVER", "TERMINATE"]
F = TypeVar("F", bound=Callable[..., Any])

MODES: Final = ("ALWAYS", "NEVER", "TERMINATE")
SYSTEM_MESSAGE: Final = "You are a helpful AI assistant."
TERMINATE: Final = "TERMINATE"
MUTE: Final = (
    "{names} can say nothing: give an agent a model (llm_config=...), a reply function or a default_auto_reply, or let a "
    "person answer for it (human_input_mode)."
)


class ConversableAgent(BaseChatAgent):
    """An agent that chats with other agents, with AG2's names. Whatever waits has an async twin, whose name begins with a_.

    It answers a message by the first of its reply functions that has an answer: those that were registered, the last one
    first; then a person or the end, as `human_input_mode` says; then its functions, where they are called; then its model;
    else `default_auto_reply`.

    In a `GroupChat` it can be a member in this process, or on the bus.

    Args:
        name: A Python identifier.
        system_message: Told to its model first.
        is_termination_msg: Whether a message that it receives ends the chat; None: the text "TERMINATE" does. It finds the
            text under "content" and "text", and who said it under "name" and "sender".
        max_consecutive_auto_reply: How often it answers one agent without a person; None: 100 times.
        human_input_mode: "ALWAYS": a person is asked each time; "TERMINATE": at the end, and when the number of automatic
            answers is reached; "NEVER".
        function_map: Functions that it executes, by name; they may be async.
        llm_config: Its model: a client, an LLMConfig, AG2's dictionary, or None.
        default_auto_reply: Its answer if nothing else answers.
        description: What it can do, for the choice of who speaks; None: the system message.
        silent: Whether what it says is not shown, whatever the chat says; None: the chat says so.
        context_variables: What it knows beside the messages.
        model_client_cls: Classes that `llm_config` may name.
        code_execution_config: False, or None; for code let a `CodeExecutorAgent` take part.
        functions: Functions that its model may call; in a pattern the group executes them.
        handoffs: To whom it hands over in a pattern.
        update_agent_state_before_reply: Done to itself before each answer: an UpdateSystemMessage, or functions of the agent
            and the messages, which may be async.

    Attributes:
        system_message: Told to its model first.
        human_input_mode: When a person is asked.
        client: Its model; None: it has none.
        functions: What it executes, and what its model may call.
        transforms: Change what its model reads.
        usage: What its model has used.
        context_variables: What it knows beside the messages.
        auto_replies: How often it has answered without a person.
        human_inputs: What people said, since the chat began.
        is_silent: Whether the chat under way is not shown.
        stop_reason: Why the group chat that it runs has ended.
        reading: The messages as its model reads them.
        member: The agent as a member of a team.
        part: Its part in a group whose agents hand over to each other; None: it is in none.

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
        handoffs: Any = None,
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
        self.client: ChatCompletionClient | None = client_of(llm_config, model_client_cls)
        self.functions = AgentFunctions(function_map or {}, _listed(functions))
        self.transforms: TransformMessages | None = None
        model = "" if self.client is None else self.client.model
        self.usage = ModelUsage(prices=prices_of(llm_config, model))
        self.context_variables = ContextVariables() if context_variables is None else context_variables
        self.auto_replies = AutoReplies(max_consecutive_auto_reply)
        self.silent = silent
        self.is_silent: bool | None = False
        self.stop_reason: str | None = None
        self.part: GroupPart | None = None
        self._handoffs = handoffs
        self._updates = _listed(update_agent_state_before_reply)
        self._hooks = Hooks()
        self._is_termination_msg = is_termination_msg or says_terminate
        self._default_auto_reply = default_auto_reply
        self._rules = [
            ReplyRule([Agent, None], one) for one in (termination_or_human, by_functions, by_model)
        ]
        self._remember_nothing()

    def _remember_nothing(self) -> None:
        """Begin anew; what was remembered so far stays as it is with a copy that shares it."""
        self._histories = Histories(self.name)
        self.reading = ModelReading(self.name)
        self._answers_to: dict[Agent, bool] = {}
        self.human_inputs: list[str] = []
        self.member = GroupMember(self.name, self._histories)

    # The agent, by AG2's names

    @property
    def description(self) -> str:
        """Its abilities, for the choice of who speaks."""
        return self._description

    @description.setter
    def description(self, description: str) -> None:
        self._description = description

    def update_system_message(self, system_message: str) -> None:
        """Tell its model something else."""
        self.system_message = system_message

    @property
    def chat_messages(self) -> Histories:
        """The messages of its conversations, by the agent at the other end."""
        return self._histories

    def chat_messages_for_summary(self, agent: Agent) -> list[Message]:
        """The messages that a summary of the conversation with an agent is made of."""
        return self._histories[agent]

    def last_message(self, agent: Agent | None = None) -> Message | None:
        """The last message of a conversation; see `Histories.last`."""
        return self._histories.last(agent)

    def clear_history(
        self, recipient: Agent | None = None, nr_messages_to_preserve: int | None = None
    ) -> None:
        """Forget messages; see `Histories.clear`."""
        self._histories.clear(recipient, nr_messages_to_preserve or 0)

    def reset(self) -> None:
        """Forget all conversations and counts."""
        self.clear_history()
        self.auto_replies.reset()
        self._answers_to.clear()

    def max_consecutive_auto_reply(self, sender: Agent | None = None) -> int:
        """How often it answers an agent without a person."""
        return self.auto_replies.most(sender)

    def update_max_consecutive_auto_reply(self, value: int, sender: Agent | None = None) -> None:
        """Change that number, for all agents or for one."""
        self.auto_replies.limit(value, sender)

    def reset_consecutive_auto_reply_counter(self, sender: Agent | None = None) -> None:
        """Begin to count again; None: for all agents."""
        self.auto_replies.reset(sender)

    @property
    def function_map(self) -> dict[str, Callable[..., Any]]:
        """The functions that it executes, by name."""
        return self.functions.executed

    def register_function(self, function_map: Mapping[str, Callable[..., Any] | None]) -> None:
        """Let the agent execute functions, by name; None: no longer."""
        self.functions.update(function_map)

    def can_execute_function(self, name: str | list[str]) -> bool:
        """Whether it executes a function, or all of several."""
        return ({name} if isinstance(name, str) else set(name)) <= set(self.functions.executed)

    def register_for_execution(self, name: str | None = None) -> Callable[[F], F]:
        """Make a decorator: the agent executes the function when a message calls it."""

        def register(function: F) -> F:
            self.functions.update({name or function.__name__: function})
            return function

        return register

    def register_for_llm(
        self, *, name: str | None = None, description: str | None = None
    ) -> Callable[[F], F]:
        """Make a decorator: the agent's model may call the function, or the tool; the agent that executes it answers.

        A parameter named ``context_variables`` is given by us, and not shown to the model.
        """

        def register(function: F) -> F:
            self.functions.offer(function, name, description)
            return function

        return register

    def register_tool(self, tool: Callable[..., Any]) -> None:
        """Let the agent's model call a tool, or a function, and execute it; so does ``tool.register_tool(agent)``."""
        self.functions.offer(tool)
        self.functions.update({name_of_tool(tool): tool})

    async def a_execute_function(self, func_call: Mapping[str, Any]) -> tuple[bool, Message]:
        """Execute a function of its `function_map`; whether that succeeded, and the message that says so."""
        name = func_call.get("name", "")
        functions = executables(self.functions.tools())
        is_done, text = await execute(functions, name, func_call.get("arguments", ""))
        return is_done, {"name": name, "role": "function", "content": text}

    @property
    def handoffs(self) -> Any:
        """To whom it hands over in a pattern: `Handoffs` of `callboard.ag2`."""
        if self._handoffs is None:
            # By name: AG2's patterns build on this package, and a program without patterns never loads them.
            self._handoffs = import_module("callboard.ag2").Handoffs()
        return self._handoffs

    def register_handoff(self, condition: Any) -> None:
        """Hand over in a pattern; the same as `handoffs.add`."""
        self.handoffs.add(condition)

    def register_handoffs(self, conditions: Sequence[Any]) -> None:
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
        """Count what a model used that has answered for it; without a name, its own."""
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

    def register_nested_chats(
        self,
        chat_queue: Sequence[Chat],
        trigger: Any,
        reply_func_from_nested_chats: str | FromNested = "summary_from_nested_chats",
        position: int = 2,
        **options: Any,
    ) -> None:
        """Answer with what comes of other chats, which take place one after the other; see `initiate_chats`.

        As a member of a team the agent lets copies of the others chat, which forget.

        Args:
            chat_queue: The chats. Without a "sender" this agent begins one; without a "message" the first one begins with
                the message that it answers, and others are left out; "carryover_config" with a "summary_method" says what
                of the chat around it the first one is told.
            trigger: Whom it answers so, see `check_trigger`.
            reply_func_from_nested_chats: "summary_from_nested_chats": the summary of the last chat; or a function of the
                queue, this agent, messages, sender and config, which may be async.
            position: Its place among the reply functions; 2: after a person and functions, before the model.
            **options: As for `register_reply`; "use_async" makes no difference.

        Raises:
            GroupChatDeclarationError: `reply_func_from_nested_chats` or the trigger is none (a ValueError).
        """
        reply = nested_reply(chat_queue, reply_func_from_nested_chats)
        self.register_reply(trigger, reply, position, options.get("config"))

    def register_hook(self, hookable_method: str, hook: Hook) -> None:
        """Let a function change what the agent reads or says; see `Hooks` for the names."""
        self._hooks.add(hookable_method, hook)

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
        given = await self._hooks.before_reply(self, given)
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

    # Chats

    async def a_send(
        self,
        message: str | Message,
        recipient: ConversableAgent,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Say something to another agent.

        Args:
            message: A text, or a message.
            recipient: The other agent.
            request_reply: Whether an answer is wanted; None: as the chat has it.
            silent: Whether it is not shown.

        Raises:
            GroupChatDeclarationError: There is nothing in it (a ValueError).
        """
        message = await self._hooks.before_send(self, message, recipient, silent)
        self._histories.keep(message, "assistant", self, recipient)
        await recipient.a_receive(message, self, request_reply, silent)

    async def a_receive(
        self,
        message: str | Message,
        sender: Agent,
        request_reply: bool | None = None,
        silent: bool | None = False,
    ) -> None:
        """Hear something, and answer if that is wanted; see `a_send`."""
        kept = self._histories.keep(message, "user", sender, sender)
        own = getattr(sender, "silent", None)
        if not (silent if own is None else own):
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
        """Say something to another agent; see `a_send`."""
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

    @property
    def is_mute(self) -> bool:
        """Whether it can say nothing: it has no model, no functions, no answer of its own, and no person behind it."""
        has_rules = [rule.function for rule in self._rules] != [termination_or_human, by_functions, by_model]
        answers = self.client or self._default_auto_reply or self.function_map or has_rules or self.part
        return not answers and self.human_input_mode == "NEVER"

    async def a_initiate_chat(
        self,
        recipient: ConversableAgent,
        clear_history: bool = True,
        silent: bool | None = False,
        max_turns: int | None = None,
        summary_method: Summary = "last_msg",
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
            **context: For these functions. "carryover" is a text, or a list of texts, that the first message ends with.

        Returns:
            What came of it.

        Raises:
            GroupChatDeclarationError: The recipient is no agent, or neither of them can say anything (a ValueError).
        """
        check_agents([recipient])
        if max_turns is None and self.is_mute and recipient.is_mute:
            raise GroupChatDeclarationError(MUTE.format(names=f"{self.name!r} and {recipient.name!r}"))
        before = used_by(self, recipient)
        self.prepare_chat(recipient, clear_history, answers=max_turns is None)
        self.is_silent = recipient.is_silent = silent
        for turn in range(1 if max_turns is None else max_turns):
            said = await (
                first_message(self, recipient, message, context)
                if turn == 0
                else self.a_generate_reply(sender=recipient)
            )
            if said is None:
                break
            await self.a_send(said, recipient, None if max_turns is None else True, silent)
        summary = await summary_of(self, recipient, summary_method, {**(summary_args or {}), **context})
        return ChatResult(
            chat_history=list(self.chat_messages[recipient]),
            summary=summary,
            cost=used_by(self, recipient).minus(before).cost(),
            human_input=list(self.human_inputs),
            stop_reason=recipient.stop_reason,
        )

    def initiate_chat(self, recipient: ConversableAgent, *args: Any, **kwargs: Any) -> ChatResult:
        """Chat with another agent; see `a_initiate_chat`."""
        return wait_for(self.a_initiate_chat(recipient, *args, **kwargs))

    def initiate_chats(self, chat_queue: Sequence[Chat]) -> list[ChatResult]:
        """Chat with others, one after the other; see `callboard.groupchat.initiate_chats`."""
        return initiate_chats([{**chat, "sender": self} for chat in chat_queue])

    async def a_initiate_chats(self, chat_queue: Sequence[Chat]) -> dict[int, ChatResult]:
        """Chat with others at the same time; see `callboard.groupchat.a_initiate_chats`."""
        return await a_initiate_chats([{**chat, "sender": self} for chat in chat_queue])

    async def summarize(self, messages: Sequence[Message], arguments: Mapping[str, Any]) -> str:
        """A summary by the agent's model; "" without one. "summary_prompt" of the arguments says how."""
        if self.client is None:
            return ""
        prompt = {"role": "system", "content": arguments.get("summary_prompt", SUMMARISE)}
        result = await recorded(self.client).create(to_model([*messages, prompt], self.name))
        self.note_answer(result)
        return result.content if isinstance(result.content, str) else ""

    def who_pays(self) -> Sequence[ConversableAgent]:
        """The agents that a chat with this one is paid for: itself."""
        return [self]

    def prepare_chat(
        self, other: ConversableAgent, clear_history: bool, *, both: bool = True, answers: bool = True
    ) -> None:
        """Begin a chat.

        Args:
            other: With whom.
            clear_history: Whether what they have said to each other is forgotten.
            both: Whether the other one prepares as well.
            answers: Whether each answers what the other says.
        """
        self.auto_replies.reset(other)
        self._answers_to[other] = answers
        if clear_history:
            self.clear_history(other)
            self.human_inputs.clear()
        if both:
            other.prepare_chat(self, clear_history, both=False, answers=answers)

    # The agent as a member of a team, in whatever process

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """A message, or a StopMessage where it has no answer."""
        return (ConversationMessage, StopMessage)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer what was said since its last answer. Where it has no answer, it says a StopMessage."""
        self.member.hear_who_takes_part()
        for message in messages:
            if not isinstance(message, StopMessage):
                self.take_note(message)
        before = None if self.part is None else snapshot(self.context_variables)
        reply = await self.a_generate_reply(sender=self.member.group)
        if reply is None:
            return Response(chat_message=StopMessage(content=NO_REPLY, source=self.name))
        changed = {} if before is None else changes(before, self.context_variables)
        return Response(chat_message=self.member.say(reply, changed))

    def take_note(self, message: BaseChatMessage) -> None:
        """Hear something without an answer; what it said itself is put back when a chat is resumed."""
        if self.part is not None:
            take_over(self.context_variables, message.metadata)
        self.member.take_note(message)

    def as_member(self, rules: GroupRules) -> Self:
        """This agent as a member of a group that may be in other processes, with context variables of its own."""
        twin = copy(self)
        twin.context_variables = deepcopy(self.context_variables)
        twin.member = GroupMember(self.name, self._histories, rules)
        return twin

    def for_conversation(self) -> Self:
        """An agent like this one that remembers nothing; reply functions, models and tools are shared."""
        twin = copy(self)
        twin._remember_nothing()
        twin.member.rules = self.member.rules
        twin.auto_replies = self.auto_replies.anew()
        return copy_of(twin)

    def unrecorded_clients(self) -> Sequence[ChatCompletionClient]:
        """None: it is asked through a client that records."""
        return ()

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget all conversations and counts."""
        self.reset()
        self.member.reset()

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep what it hears and says in a list, as JSON, one message in each."""
        self.member.keep_in(messages)

    async def save_state(self) -> Mapping[str, Any]:
        """The messages that it heard and said as a member, and its counts."""
        beside = await self.save_beside_context() or {}
        return {**beside, "messages": list(self.member.messages)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        self.member.load([dict(message) for message in state.get("messages", ())])
        await self.load_beside_context(state)

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """Its counts, and its context variables."""
        return {
            "type": "ConversableAgentState",
            "version": "1.0.0",
            "replies": self.auto_replies.count(self.member.group),
            "context_variables": self.context_variables.to_dict(),
            "usage": self.usage.dump(),
            **({"introduced": True} if self.member.is_introduced else {}),
        }

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned."""
        self.auto_replies.set(self.member.group, int(state.get("replies", 0)))
        self.context_variables.clear()
        self.context_variables.update(state.get("context_variables", {}))
        self.usage = replace(ModelUsage.load(state.get("usage", {})), prices=self.usage.prices)
        self.member.is_introduced = bool(state.get("introduced"))


def says_terminate(message: Message) -> bool:
    """Whether the text of a message is "TERMINATE"."""
    return text_of(message.get("content")) == TERMINATE


def _listed(functions: Callable[..., Any] | Sequence[Callable[..., Any]]) -> list[Callable[..., Any]]:
    return [functions] if callable(functions) else list(functions)


# Answers by a person, functions or a model, in this order. As reply functions they can be excluded by name.


EXIT: Final = "exit"
ALWAYS: Final = "Replying as {name}. Feedback to {sender} (nothing: automatic reply; 'exit': the end): "
LIMIT: Final = "Feedback to {sender} (nothing: automatic reply; 'exit': the end): "
END: Final = "Feedback to {sender} (nothing or 'exit': the end): "
OVER: Final = "Termination message condition on agent '{name}' met"
TOO_MANY: Final = "Maximum number of consecutive auto-replies reached"
ENDED: Final = "User requested to end the conversation"
NO_INPUT: Final = " and no human input provided"


async def termination_or_human(
    agent: ConversableAgent,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> Answered:
    """End the chat, or let a person answer, as `human_input_mode` says."""
    if not messages:
        return False, None
    message = messages[-1]
    text, reason = await _asked(agent, message, sender)
    if reason is not None:
        agent.auto_replies.reset(sender)
        IOStream.get_default().send(TerminationEvent(reason, agent.name, sender.name if sender else ""))
        return True, None
    if text or agent.auto_replies.most(sender) == 0:
        agent.auto_replies.reset(sender)
        return True, _human(text, message)
    agent.auto_replies.add(sender)
    return False, None


async def _asked(agent: ConversableAgent, message: Message, sender: Agent | None) -> tuple[str, str | None]:
    """The words of a person, and why the chat ends; None: it goes on."""
    mode, is_over = agent.human_input_mode, agent.is_termination_msg(message)
    is_limit = agent.auto_replies.count(sender) >= agent.auto_replies.most(sender)
    name = {"name": agent.name, "sender": sender.name if sender else "the sender"}
    if mode == "NEVER":
        over = OVER.format(**name) if is_over else None
        return "", TOO_MANY if is_limit else over
    if mode == "TERMINATE" and not (is_limit or is_over):
        return "", None
    question = ALWAYS if mode == "ALWAYS" else END if is_over else LIMIT
    text = await agent.a_get_human_input(question.format(**name))
    if text == EXIT:
        return "", ENDED
    if not text and is_over:
        return "", OVER.format(**name) + NO_INPUT
    return text, None


def _human(text: str, message: Message) -> Message:
    """A person's answer; calls that are open are answered with it."""
    calls = message.get("tool_calls") or ()
    stopped = [
        {"role": "tool", "tool_call_id": call.get("id", ""), "content": "USER INTERRUPTED"} for call in calls
    ]
    if message.get("function_call"):
        called = message["function_call"].get("name", "")
        stopped.insert(0, {"role": "function", "name": called, "content": "USER INTERRUPTED"})
    answer: Message = {"role": "user", "content": text}
    return {**answer, "tool_responses": stopped} if stopped else answer


async def by_functions(
    agent: ConversableAgent,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> Answered:
    """Execute the functions that the last message calls."""
    answer = await answer_calls(agent.functions, messages[-1]) if messages else None
    return answer is not None, answer


async def by_model(
    agent: ConversableAgent,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> Answered:
    """Ask the agent's model."""
    if agent.client is None:
        return False, None
    whole: list[Message] = [{"role": "system", "content": agent.system_message}, *(messages or ())]
    if agent.transforms is not None:
        whole = agent.transforms.apply(whole)
    transfers = [] if agent.part is None else agent.part.tools(agent, messages or ())
    tools = [*agent.functions.offered, *transfers]
    options: dict[str, Any] = {"tools": tools} if tools else {}
    result = await recorded(agent.client).create(agent.reading.of(whole), **options)
    agent.note_answer(result)
    return True, from_model(result)
