"""A `ConversableAgent` as a member of a run: it executes its own functions within its turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from callboard.agents.base import BaseChatAgent
from callboard.agents.chat_agent import Response
from callboard.agents.responding import response_of
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.groupchat.message import ConversationMessage
from callboard.groupchat.peer import Peer
from callboard.groupchat.sharing import in_force, snapshot
from callboard.groupchat.usage import ModelUsage
from callboard.memory.contexts.conversation import Conversation
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage, StopMessage
from callboard.messages.events import ToolCallExecutionEvent, ToolCallRequestEvent
from callboard.models.types import RequestUsage
from callboard.tools.base import Tool

from . import variables
from .functions import Called, Functions, call, own_functions
from .projection import MODEL


class Seat(BaseChatAgent):
    """Takes an agent's turns.

    Calls of functions that it has are executed, and its model asked again, until it says something. A function that returns
    an agent hands over to it. Calls of functions that it does not have are left to another member.

    Args:
        agent: The agent; its seat works with a copy, which remembers nothing.
        tools: What it may call besides, by name.
    """

    def __init__(self, agent: Peer, tools: Sequence[Tool] = ()) -> None:
        super().__init__(agent.name, agent.description)
        self._agent = agent.for_conversation()
        more = {tool.name: tool for tool in tools}
        self._agent.llm_tools = [*self._agent.llm_tools, *more.values()]
        self._more = more

    @property
    def agent(self) -> Peer:
        """The agent that sits here."""
        return self._agent

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """A message, a StopMessage where there is no answer, and a HandoffMessage."""
        return (ConversationMessage, StopMessage, HandoffMessage)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer; see `on_messages_stream`."""
        return await response_of(self.on_messages_stream(messages, cancellation_token), self.name)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Answer what was said since its last answer."""
        variables.apply(self._agent.context_variables, messages)
        before = snapshot(self._agent.context_variables)
        async for item in self._turn(messages, cancellation_token):
            if isinstance(item, Response):
                changed = variables.changes(before, self._agent.context_variables)
                item.chat_message.metadata.update(variables.written(changed))
            yield item

    async def _turn(
        self, messages: Sequence[BaseChatMessage], token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        heard, functions = messages, own_functions(self._agent, self._more)
        while True:
            said = await self._say(heard, token)
            calls = _calls_of(said, functions)
            if not calls:
                yield Response(chat_message=said)
                return
            asked = ToolCallRequestEvent(content=calls, source=self.name, models_usage=said.models_usage)
            asked.metadata.update(said.metadata)
            yield asked
            answers = [await self._call(functions, one) for one in calls]
            yield _executed(self.name, calls, answers)
            answer = ConversationMessage(data=_tool_message(calls, answers), source=self.name)
            target = next((one for one in answers if one.target), None)
            if target is not None:
                self._agent.take_note(answer)
                handoff = HandoffMessage(content=target.text, target=target.target, source=self.name)
                yield Response(chat_message=handoff)
                return
            heard = [answer]

    async def _say(self, heard: Sequence[BaseChatMessage], token: CancellationToken) -> BaseChatMessage:
        before = ModelUsage.load(self._agent.usage.dump())
        with in_force(self._agent.context_variables):
            response = await self._agent.on_messages(heard, token)
        said = response.chat_message
        new = self._agent.usage.minus(before)
        used = {**new.cached, **new.paid}
        if used:
            said.models_usage = sum(used.values(), RequestUsage(0, 0))
            said.metadata[MODEL] = next(iter(used))
        return said

    async def _call(self, functions: Functions, one: FunctionCall) -> Called:
        with in_force(self._agent.context_variables):
            return await call(functions, one.name, one.arguments)

    # What it remembers is what the agent remembers

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget everything."""
        await self._agent.on_reset(cancellation_token)

    async def save_state(self) -> Mapping[str, Any]:
        """What the agent remembers."""
        return await self._agent.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        await self._agent.load_state(state)

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep what the agent hears and says in a list."""
        self._agent.keep_context_in(messages)

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """What the agent remembers beside it."""
        return await self._agent.save_beside_context()

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned."""
        await self._agent.load_beside_context(state)


def _calls_of(said: BaseChatMessage, functions: Functions) -> list[FunctionCall]:
    """The calls in a message, if the agent has all the functions."""
    if not isinstance(said, ConversationMessage):
        return []
    calls = [
        FunctionCall(
            id=str(one.get("id", "")),
            name=one["function"]["name"],
            arguments=one["function"].get("arguments", ""),
        )
        for one in said.data.get("tool_calls") or ()
    ]
    return calls if all(one.name in functions for one in calls) else []


def _executed(
    source: str, calls: Sequence[FunctionCall], answers: Sequence[Called]
) -> ToolCallExecutionEvent:
    results = [
        FunctionExecutionResult(content=answer.text, name=one.name, call_id=one.id, is_error=answer.is_error)
        for one, answer in zip(calls, answers, strict=True)
    ]
    return ToolCallExecutionEvent(content=results, source=source)


def _tool_message(calls: Sequence[FunctionCall], answers: Sequence[Called]) -> dict[str, Any]:
    responses = [
        {"tool_call_id": one.id, "role": "tool", "content": answer.text}
        for one, answer in zip(calls, answers, strict=True)
    ]
    content = "\n\n".join(answer.text for answer in answers)
    return {"role": "tool", "tool_responses": responses, "content": content}
