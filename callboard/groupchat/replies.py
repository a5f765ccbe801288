"""Replies of an agent: rules, a person, functions or a model, and what it does to itself before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from callboard.agents.base import ChatAgent
from callboard.core import people as asking
from callboard.core.people import Question, can_ask
from callboard.foundation.texts import read_json
from callboard.models.recorded import recorded
from callboard.runtime.steps import NumberedStep, running_context

from .conditions import ContextStr
from .errors import GroupChatDeclarationError
from .events import IOStream, TerminationEvent, ask_person, is_given, value_of
from .messages import Agent, Message
from .model import from_model, to_model
from .peer import Peer, Reply


@dataclass(frozen=True)
class UpdateSystemMessage:
    """A new system message before each answer.

    Args:
        content_updater: A text with context variables in braces, or a function of the agent and the messages, which may be
            async.

    Raises:
        GroupChatDeclarationError: It is neither (a ValueError).
    """

    content_updater: str | Callable[..., Any]

    def __post_init__(self) -> None:
        if not isinstance(self.content_updater, str) and not callable(self.content_updater):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GroupChatDeclarationError("UpdateSystemMessage is made of a text, or of a function.")

    async def __call__(self, agent: Peer, messages: Sequence[Message]) -> None:
        """Tells the agent's model something else.

        Raises:
            GroupChatDeclarationError: The function returned no text (a ValueError).
        """
        given = self.content_updater
        if isinstance(given, str):
            agent.system_message = ContextStr(given).format(agent.context_variables)
        else:
            text = await value_of(given(agent, messages))
            if not isinstance(text, str):
                raise GroupChatDeclarationError(
                    f"The function of an UpdateSystemMessage returns a text, and no {type(text).__name__}."
                )
            agent.system_message = text


Update: TypeAlias = Callable[..., Any]
"""Called with the agent and the messages before each answer; may be async."""


@dataclass(frozen=True)
class ReplyRule:
    """A function that may answer for an agent.

    Attributes:
        trigger: Whose messages it answers, see `check_trigger`.
        function: Called with the agent and ``messages=``, ``sender=``, ``config=``; may be async. It returns whether its
            answer counts, and the answer.
        config: Passed to the function.
    """

    trigger: Any
    function: Callable[..., Any]
    config: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> ReplyRule:
        """For another conversation: it is shared, as the agents that it names are."""
        return self


def check_trigger(trigger: Any) -> None:
    """Refuse what is no trigger.

    A trigger is an agent, a class of agents, a name, a function of the sender, a list of these, or None: no sender.

    Raises:
        GroupChatDeclarationError: It is none of these (a ValueError).
    """
    if trigger is None or isinstance(trigger, str | type | ChatAgent) or callable(trigger):
        return
    if not isinstance(trigger, list | tuple):
        raise GroupChatDeclarationError(
            "A trigger is an agent, a class, a name, a function, or a list of these."
        )
    for one in trigger:
        check_trigger(one)


def is_triggered(trigger: Any, sender: Agent | None) -> bool:
    """Whether a trigger fits a sender."""
    if isinstance(trigger, list | tuple):
        return any(is_triggered(one, sender) for one in trigger)
    if trigger is None or sender is None:
        return trigger is sender
    if isinstance(trigger, str):
        return trigger == sender.name
    if isinstance(trigger, type):
        return isinstance(sender, trigger)
    return trigger is sender if isinstance(trigger, ChatAgent) else bool(trigger(sender))


FunctionMap: TypeAlias = Mapping[str, Callable[..., Any]]


async def execute(functions: FunctionMap, name: str, arguments: str) -> tuple[bool, str]:
    """Call a function with arguments that a model wrote.

    On the bus what it returns is recorded for the message that is being handled.

    Args:
        functions: The functions by name; they may be async.
        name: Of the one to call.
        arguments: A JSON object.

    Returns:
        Whether it succeeded, and what it returned or raised, as text for the model.
    """
    function = functions.get(name)
    if function is None:
        return False, f"Error: Function {name} not found."
    try:
        given = read_json(arguments or "{}")
    except ValueError as error:
        return False, f"Error: {error}\n The arguments must be in JSON format."
    if not isinstance(given, dict):
        return False, "Error: The arguments must be a JSON object."
    try:
        return True, await _recorded(function, name, given)
    except Exception as error:  # noqa: BLE001 - the model hears of it
        return False, f"Error: {error}"


async def _recorded(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> str:
    step = NumberedStep.begin(f"function:{name}")

    async def call() -> str:
        return as_text(await value_of(function(**arguments)))

    return await (call() if step is None else step.run(call))


def as_text(value: Any) -> str:
    """What a function returned, as a model reads it: as JSON where it can be."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)


async def answer_calls(functions: FunctionMap, message: Message) -> Message | None:
    """The message that answers the calls of functions in another one.

    Returns:
        None: it calls none.
    """
    old = message.get("function_call")
    if old:
        _, text = await execute(functions, old["name"], old.get("arguments", ""))
        return {"name": old["name"], "role": "function", "content": text}
    calls = [call for call in message.get("tool_calls") or () if call.get("type", "function") == "function"]
    if not calls:
        return None
    responses = [await _answer(functions, call) for call in calls]
    content = "\n\n".join(response["content"] for response in responses)
    return {"role": "tool", "tool_responses": responses, "content": content}


async def _answer(functions: FunctionMap, call: Mapping[str, Any]) -> Message:
    name = call["function"]["name"]
    _, text = await execute(functions, name, call["function"].get("arguments", ""))
    return {"tool_call_id": call.get("id", ""), "role": "tool", "content": text}


Answered: TypeAlias = tuple[bool, Reply]

KIND: Final = "user_input"
EXIT: Final = "exit"
ALWAYS: Final = "Replying as {name}. Feedback to {sender} (nothing: automatic reply; 'exit': the end): "
LIMIT: Final = "Feedback to {sender} (nothing: automatic reply; 'exit': the end): "
END: Final = "Feedback to {sender} (nothing or 'exit': the end): "
OVER: Final = "Termination message condition on agent '{name}' met"
TOO_MANY: Final = "Maximum number of consecutive auto-replies reached"
ENDED: Final = "User requested to end the conversation"
NO_INPUT: Final = " and no human input provided"


async def termination_or_human(
    agent: Peer,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> Answered:
    """Ends the chat, or lets a person answer, as `human_input_mode` says."""
    if not messages:
        return False, None
    message = messages[-1]
    text, reason = await _asked(agent, message, sender)
    if reason is not None:
        agent.reset_consecutive_auto_reply_counter(sender)
        IOStream.get_default().send(TerminationEvent(reason, agent.name, sender.name if sender else ""))
        return True, None
    if text or agent.max_consecutive_auto_reply(sender) == 0:
        agent.reset_consecutive_auto_reply_counter(sender)
        return True, _human(text, message)
    agent.count_auto_reply(sender)
    return False, None


async def _asked(agent: Peer, message: Message, sender: Agent | None) -> tuple[str, str | None]:
    """What a person says, and why the chat ends; None: it goes on."""
    mode, is_over = agent.human_input_mode, agent.is_termination_msg(message)
    is_limit = agent.auto_replies(sender) >= agent.max_consecutive_auto_reply(sender)
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
    agent: Peer,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> Answered:
    """Executes the functions that the last message calls."""
    answer = await answer_calls(agent.function_map, messages[-1]) if messages else None
    return answer is not None, answer


async def by_model(
    agent: Peer,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> Answered:
    """Asks the agent's model."""
    if agent.client is None:
        return False, None
    whole: list[Message] = [{"role": "system", "content": agent.system_message}, *(messages or ())]
    if agent.transforms is not None:
        whole = agent.transforms.apply(whole)
    transfers = [] if agent.part is None else agent.part.tools(agent, messages or ())
    tools = [*agent.llm_tools, *transfers]
    options: dict[str, Any] = {"tools": tools} if tools else {}
    result = await recorded(agent.client).create(to_model(whole, agent.name), **options)
    agent.note_answer(result)
    return True, from_model(result)


async def human_input(prompt: str, agent: str) -> str:
    """What a person answers: at the stream in force, on the bus from anywhere, else at the terminal.

    Args:
        prompt: The question.
        agent: Name of the agent that a person is behind.
    """
    step, context = NumberedStep.begin(f"input:{agent}"), running_context()
    if is_given() or not can_ask(context):
        return await ask_person(prompt)
    name = agent if step is None else step.full_name
    question = Question(text=prompt, name=name, details={"kind": KIND, "agent": agent})
    answer: str = await asking.ask_person(question, context)
    return answer
