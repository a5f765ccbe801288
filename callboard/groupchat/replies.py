"""How an agent answers, unless functions of its own do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from callboard import asking
from callboard.asking import Question, can_ask
from callboard.models.recorded import recorded
from callboard.runtime.steps import NumberedStep, running_context

from .agent import Agent, Message
from .events import TerminationEvent
from .functions import answer_calls
from .model_messages import from_model, to_model
from .peer import Peer, Reply
from .stream import IOStream, ask_person, is_given

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
