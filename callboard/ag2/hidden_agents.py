"""Hidden agents of a pattern: the one that executes functions, and those that hold a chat of their own and return."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.agents.base import ChatAgent, twin_of
from callboard.groupchat.chats import with_carryover
from callboard.groupchat.context_variables import (
    changes,
    current_variables,
    in_force,
    snapshot,
    take_over,
)
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.errors import GroupChatDeclarationError
from callboard.groupchat.events import value_of
from callboard.groupchat.messages import Agent, Message, text_of
from callboard.groupchat.model import ModelUsage
from callboard.groupchat.replies import Executable, Executables, execute, run_tool
from callboard.runtime.steps import running_context
from callboard.tools import Tool
from callboard.tools.base import clean
from callboard.tools.workbench import result_of

from .handoffs import NEXT_TARGET, OnCondition, TransitionTarget, is_available
from .targets import AgentTarget, GroupChatConfig, GroupChatTarget, NestedChatTarget, ReplyResult

EXECUTOR: Final = "_Group_Tool_Executor"
UNAVAILABLE: Final = "Error: {name} is not available now."


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of a call.

    Attributes:
        text: For the model.
        target: Who is next, as plain data; None: the call says nothing about that.
    """

    text: str
    target: dict[str, Any] | None = None


@dataclass(frozen=True)
class Abilities:
    """Functions and tools that an agent of the group can call; they never change.

    Attributes:
        functions: Its functions, by name.
        transfers: The tools by which it hands over, by name.
    """

    functions: Executables
    transfers: Mapping[str, OnCondition]

    def __deepcopy__(self, memo: dict[int, Any]) -> Abilities:
        """For another conversation: it never changes."""
        return self


class GroupToolExecutor(ConversableAgent):
    """The agent that executes the calls of a pattern's agents, in their order, and says who is next, where that was decided.

    Where several calls name a target, the last one counts. An agent can call what it was given, and nothing that only
    others were given; in AG2 everything.

    Args:
        abilities: What each agent can call, by its name.
    """

    def __init__(self, abilities: Mapping[str, Abilities]) -> None:
        super().__init__(
            EXECUTOR,
            "Executes functions.",
            human_input_mode="NEVER",
            description="Executes the functions of the others.",
        )
        self._abilities = dict(abilities)
        self.register_reply([Agent, None], _answer_calls, remove_other_reply_funcs=True)

    async def answer(self, message: Message) -> Message | None:
        """The results of the calls in a message; None: it has none."""
        calls = [
            call for call in message.get("tool_calls") or () if call.get("type", "function") == "function"
        ]
        if not calls:
            return None
        responses, target = [], None
        for call in calls:
            outcome = await self._call(str(message.get("name", "")), call["function"])
            target = outcome.target or target
            responses.append({"tool_call_id": call.get("id", ""), "role": "tool", "content": outcome.text})
        content = "\n".join(response["content"] for response in responses)
        reply: Message = {"role": "tool", "tool_responses": responses, "content": content}
        return {**reply, NEXT_TARGET: target} if target else reply

    async def _call(self, caller: str, call: Mapping[str, Any]) -> CallOutcome:
        name, own = call["name"], self._abilities.get(caller, Abilities({}, {}))
        transfer = own.transfers.get(name)
        if transfer is not None:
            # guard: a handoff that is not available is not made
            if not is_available(transfer, self, ()):
                return CallOutcome(UNAVAILABLE.format(name=name))
            return CallOutcome(str(transfer.target), transfer.target.dump())
        with in_force(self.context_variables):
            # guard: an agent calls what it was offered, and who is outside the group calls nothing
            is_done, text = await execute(own.functions, name, call.get("arguments", ""))
        if not is_done:
            return CallOutcome(text)
        returned = json.loads(text)
        # An attempt that died after the call has left its record, and not its variables. This one reads the record
        # instead of calling: without the changes in it, all that follows would go on with the values from before the
        # call.
        # guard: what a function has changed is changed when its record is read
        take_over(self.context_variables, returned["changes"])
        return CallOutcome(returned["text"], returned["target"])


async def _answer_calls(
    executor: GroupToolExecutor,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> tuple[bool, Message | None]:
    answer = await executor.answer(messages[-1]) if messages else None
    return answer is not None, answer


def abilities_of(
    agent: ConversableAgent, transfers: Mapping[str, OnCondition], everybody: Sequence[ConversableAgent]
) -> Abilities:
    """Abilities of an agent: the functions that it executes, those that its model may call, and who it hands over to.

    Args:
        agent: The agent.
        transfers: The tools by which it hands over.
        everybody: The agents of the group: what its model knows by its description alone, one of them executes.
    """
    found: dict[str, Tool] = {}
    for tool in agent.functions.offered:
        if isinstance(tool, Tool):
            found[tool.name] = tool
        else:
            name = str(tool["name"] if isinstance(tool, Mapping) else tool.schema["name"])
            known = [one.functions.tool(name) for one in everybody if name in one.function_map]
            if known and (executed := known[-1]) is not None:
                found[name] = executed
    tools = {**found, **agent.functions.tools()}
    return Abilities({name: _executable(tool) for name, tool in tools.items()}, transfers)


def _executable(tool: Tool) -> Executable:
    async def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
        before = snapshot(current_variables())
        value = await run_tool(tool, arguments)
        return _returned(value, lambda given: result_of(tool, tool.name, given).to_text(), before)

    return run


def _returned(value: Any, as_text: Callable[[Any], str], before: Mapping[str, str]) -> dict[str, Any]:
    """The result and the changes of a function, as plain data: on the bus that is recorded."""
    target, text = None, ""
    variables = current_variables()
    if isinstance(value, ChatAgent):
        value = AgentTarget(value)
    if isinstance(value, ReplyResult):
        target, text = value.target, clean(value.message)
        variables.update(value.context_variables or {})
    elif isinstance(value, TransitionTarget):
        target, text = value, str(value)
    else:
        text = as_text(value)
    # In this process the variables are one object, which may hold anything.
    changed = {} if running_context() is None else changes(before, variables)
    return {"text": text, "target": target and target.dump(), "changes": changed}


PREFIX: Final = "wrapped_"
DONE: Final = "Group chat completed."

Answer = Callable[..., Awaitable[tuple[bool, str | None]]]


def helper_for(target: TransitionTarget, parent: str, number: int) -> ConversableAgent:
    """The helper for a target.

    Args:
        target: A NestedChatTarget or a GroupChatTarget.
        parent: Name of the agent who hands over.
        number: Of the helper among those of this agent, from 1.

    Raises:
        GroupChatDeclarationError: It needs a helper, and there is none for its class (a ValueError).
    """
    match target:
        case NestedChatTarget(nested_chat_config=config):
            kind, answer = "nested", _nested_chats(config)
        case GroupChatTarget(group_chat_config=chat):
            kind, answer = "group", _group_chat(chat)
        case _:
            raise GroupChatDeclarationError(f"There is no helper for a {type(target).__name__}.")
    helper = ConversableAgent(
        f"{PREFIX}{kind}_{parent}_{number}",
        human_input_mode="NEVER",
        description=f"Lets others chat for {parent}.",
    )
    helper.register_reply([Agent, None], answer, remove_other_reply_funcs=True)
    return helper


def _nested_chats(config: Mapping[str, Any]) -> Answer:
    queue: Sequence[Mapping[str, Any]] = config["chat_queue"]

    async def answer(
        helper: ConversableAgent,
        messages: Sequence[Message] | None = None,
        sender: Agent | None = None,
        config_: Any = None,
        **_: Any,
    ) -> tuple[bool, str | None]:
        said, summaries = messages or (), list[str]()
        last = text_of(said[-1].get("content")) if said else ""
        for number, chat in enumerate(queue):
            recipient = _copy(chat["recipient"])
            opening = chat.get("message")
            if opening is None and number == 0:
                opening = last
            if callable(opening):
                opening = await value_of(opening(recipient, said, sender, config.get("config")))
            if not opening:
                continue
            summaries.append(await _chat(helper, recipient, chat, opening, summaries))
        return True, summaries[-1] if summaries else None

    return answer


async def _chat(
    helper: ConversableAgent,
    recipient: ConversableAgent,
    chat: Mapping[str, Any],
    opening: Any,
    summaries: Sequence[str],
) -> str:
    """One chat; what its models used, the helper has used."""
    given = chat.get("sender")
    starter = ConversableAgent(helper.name, human_input_mode="NEVER") if given is None else _copy(given)
    carried = chat.get("carryover") or []
    carried = [carried] if isinstance(carried, str) else [str(one) for one in carried]
    result = await starter.a_initiate_chat(
        recipient,
        message=with_carryover(opening, [*carried, *summaries]),
        max_turns=chat.get("max_turns", 1),
        summary_method=chat.get("summary_method", "last_msg"),
        summary_args=chat.get("summary_args"),
        silent=True,
    )
    for agent in (starter, recipient):
        helper.usage.merge(agent.usage)
    return text_of(result.summary)


def _copy(agent: ConversableAgent) -> ConversableAgent:
    """For this chat alone, so that chats side by side never mix."""
    mine = twin_of(agent)
    mine.part = None
    mine.usage = ModelUsage(prices=mine.usage.prices)
    return mine


def _group_chat(config: GroupChatConfig) -> Answer:
    async def answer(
        helper: ConversableAgent,
        messages: Sequence[Message] | None = None,
        sender: Agent | None = None,
        **_: Any,
    ) -> tuple[bool, str | None]:
        pattern = config.pattern.for_conversation()
        result, _variables, _last = await pattern.chat(config.messages, config.max_rounds, silent=True)
        for agent in pattern.everybody():
            helper.usage.merge(agent.usage)
        return True, text_of(result.summary) or DONE

    return answer
