"""The hidden agent of a pattern that executes the functions of the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.agents.chat_agent import ChatAgent
from callboard.cancellation import CancellationToken
from callboard.groupchat.agent import Agent, Message
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.functions import as_text, execute
from callboard.groupchat.giving import with_variables
from callboard.groupchat.handoffs.agent_targets import AgentTarget
from callboard.groupchat.handoffs.on_condition import OnCondition
from callboard.groupchat.handoffs.part import NEXT_TARGET, is_available
from callboard.groupchat.handoffs.reply_result import ReplyResult
from callboard.groupchat.handoffs.target import TransitionTarget
from callboard.groupchat.peer import Peer
from callboard.groupchat.sharing import changes, current_variables, in_force, snapshot, take_over
from callboard.groupchat.waiting import value_of
from callboard.runtime.steps import running_context
from callboard.tools import Tool
from callboard.tools.text import clean

EXECUTOR: Final = "_Group_Tool_Executor"
UNAVAILABLE: Final = "Error: {name} is not available now."


@dataclass(frozen=True)
class Outcome:
    """What came of a call.

    Attributes:
        text: For the model.
        target: Who is next, as plain data; None: the call says nothing about that.
    """

    text: str
    target: dict[str, Any] | None = None


@dataclass(frozen=True)
class Abilities:
    """What an agent of the group can call; it never changes.

    Attributes:
        functions: Its functions, by name.
        transfers: The tools by which it hands over, by name.
    """

    functions: Mapping[str, Callable[..., Any]]
    transfers: Mapping[str, OnCondition]

    def __deepcopy__(self, memo: dict[int, Any]) -> Abilities:
        """For another conversation: it never changes."""
        return self


class GroupToolExecutor(ConversableAgent):
    """Executes what the agents of a pattern call, one call after the other, and says who is next, where that was decided.

    Where several calls name somebody, the last one counts. An agent can call what it was given, and nothing that only
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

    async def _call(self, caller: str, call: Mapping[str, Any]) -> Outcome:
        name, own = call["name"], self._abilities.get(caller, Abilities({}, {}))
        transfer = own.transfers.get(name)
        if transfer is not None:
            # guard: a handoff that is not available is not made
            if not is_available(transfer, self, ()):
                return Outcome(UNAVAILABLE.format(name=name))
            return Outcome(str(transfer.target), transfer.target.dump())
        with in_force(self.context_variables):
            # guard: an agent calls what it was offered, and who is outside the group calls nothing
            is_done, text = await execute(own.functions, name, call.get("arguments", ""))
        if not is_done:
            return Outcome(text)
        returned = json.loads(text)
        # What was recorded in an attempt before has not changed the variables in this one.
        # guard: what a function has changed is changed when its record is read
        take_over(self.context_variables, returned["changes"])
        return Outcome(returned["text"], returned["target"])


async def _answer_calls(
    executor: GroupToolExecutor,
    messages: Sequence[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> tuple[bool, Message | None]:
    answer = await executor.answer(messages[-1]) if messages else None
    return answer is not None, answer


def abilities_of(agent: Peer, transfers: Mapping[str, OnCondition], everybody: Sequence[Peer]) -> Abilities:
    """What an agent can call: the functions that it executes, those that its model may call, and who it hands over to.

    Args:
        agent: The agent.
        transfers: The tools by which it hands over.
        everybody: The agents of the group: what its model knows by its description alone, one of them executes.
    """
    found: dict[str, Callable[..., Any]] = {}
    for tool in agent.llm_tools:
        if isinstance(tool, Tool):
            found[tool.name] = _of_tool(tool)
        else:
            name = str(tool["name"] if isinstance(tool, Mapping) else tool.schema["name"])
            known = [one.function_map[name] for one in everybody if name in one.function_map]
            if known:
                found[name] = _executed(known[-1])
    own = {name: _executed(function) for name, function in agent.function_map.items()}
    return Abilities({**found, **own}, transfers)


def _of_tool(tool: Tool) -> Callable[..., Any]:
    async def run(**arguments: Any) -> dict[str, Any]:
        before = snapshot(current_variables())
        value = await tool.run_json(arguments, CancellationToken())
        return _returned(value, tool.return_value_as_string, before)

    return run


def _executed(function: Callable[..., Any]) -> Callable[..., Any]:
    given = with_variables(function)

    async def run(**arguments: Any) -> dict[str, Any]:
        before = snapshot(current_variables())
        return _returned(await value_of(given(**arguments)), as_text, before)

    return run


def _returned(value: Any, as_text: Callable[[Any], str], before: Mapping[str, str]) -> dict[str, Any]:
    """What a function returned and changed, as plain data: on the bus that is recorded."""
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
