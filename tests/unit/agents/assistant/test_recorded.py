"""Assistants in handlers of the bus: a handler that runs again pays nothing twice, and says the same."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import Log, MessageContext, RoutedAgent, TopicId, event
from callboard.agents import (
    AnswerGuardrail,
    AssistantAgent,
    CallGuardrail,
    Changed,
    Refused,
    TaskGuardrail,
)
from callboard.agents.guardrails import Verdict
from callboard.memory import ListMemory, MemoryContent
from callboard.memory.base import ModelContext, UpdateContextResult
from callboard.memory.contexts import SummarisingChatCompletionContext
from callboard.memory.llm_messages import FunctionCall, LLMMessage
from callboard.messages import BaseChatMessage, TextMessage
from callboard.models import RecordedChatCompletionClient, ReplayChatCompletionClient
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes

from .talking import brief, calls, said


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    made = Runtimes(f"memory://assistant-{os.urandom(4).hex()}")
    yield made
    await made.close()


class Host(RoutedAgent):
    """Has an assistant answer, and fails after that in all attempts but the last."""

    class State(BaseModel):
        thread: Log[LLMMessage] = Log()

    def __init__(self, template: AssistantAgent, attempts: int, heard: list[Any]) -> None:
        super().__init__("answers")
        self.template = template
        self.attempts = attempts
        self.heard = heard

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        thread: Log[LLMMessage] = self.state.thread
        agent = self.template.for_conversation()
        agent.keep_context_in(thread)
        self.heard.append((await said(agent, message.text), brief(list(thread))))
        if ctx.attempt < self.attempts:
            raise RuntimeError("after the answer")


async def handled(runtimes: Runtimes, template: AssistantAgent, *notes: str, attempts: int = 3) -> list[Any]:
    """What the assistant said and remembered in each attempt."""
    heard: list[Any] = []
    runtime = runtimes.new()
    await Host.register(runtime, "host", lambda: Host(template, attempts, heard))
    runtime.start()
    for number, note in enumerate(notes or ("go",), 1):
        await runtime.publish_message(Note(text=note), TopicId("host:", "a"))
        await eventually(lambda number=number: len(heard) == number * attempts)  # type: ignore[misc]
    await runtime.stop_when_idle()
    return heard


class Paying:
    """Tools and checks that remember how often they were asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def pay(self) -> str:
        """Pays."""
        self.asked.append("tool")
        return f"paid {len(self.asked)}"

    def task(self, task: Sequence[BaseChatMessage]) -> Verdict[Sequence[BaseChatMessage]]:
        self.asked.append("task")
        return Changed([TextMessage(content=f"{task[0].to_text()}!", source="user")])

    def call(self, call: FunctionCall) -> Verdict[FunctionCall]:
        self.asked.append("call")
        return None

    def answer(self, answer: BaseChatMessage) -> Verdict[BaseChatMessage]:
        self.asked.append("answer")
        return Refused("no") if self.asked.count("answer") == 1 else None


@pytest.mark.parametrize("streams", [False, True])
async def test_neither_the_model_nor_a_tool_is_paid_twice(runtimes: Runtimes, streams: bool) -> None:
    paying, model = Paying(), ReplayChatCompletionClient([calls("pay", "pay"), calls("pay"), "all paid"])
    template = AssistantAgent(
        "ada", model, tools=[paying.pay], max_tool_iterations=3, model_client_stream=streams
    )
    heard = await handled(runtimes, template)
    assert len(model.create_calls) == 3
    assert paying.asked == ["tool"] * 3
    without_pieces = [([one for one in items if one[0] != "piece"], thread) for items, thread in heard]
    assert without_pieces == [without_pieces[0]] * 3
    assert heard[0][0][-2] == ("TextMessage", "all paid")


async def test_guardrails_are_not_asked_twice(runtimes: Runtimes) -> None:
    paying, model = Paying(), ReplayChatCompletionClient([calls("pay"), "one", "two"])
    template = AssistantAgent(
        "ada",
        model,
        tools=[paying.pay],
        max_tool_iterations=2,
        guardrails=[TaskGuardrail(paying.task), CallGuardrail(paying.call), AnswerGuardrail(paying.answer)],
    )
    heard = await handled(runtimes, template)
    assert heard == [heard[0]] * 3
    assert heard[0][0][-2] == ("TextMessage", "two")
    assert heard[0][1][0] == ("UserMessage", "go!")
    assert paying.asked == ["task", "call", "tool", "answer", "answer"]
    assert len(model.create_calls) == 3


class Changing(ListMemory):
    """Finds something else every time."""

    count = 0

    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        self.count += 1
        self.content = [MemoryContent(content=f"fact {self.count}", mime_type="text/plain")]
        return await super().update_context(model_context)


async def test_what_a_memory_found_stays_so(runtimes: Runtimes) -> None:
    memory, model = Changing(), ReplayChatCompletionClient(["one"])
    heard = await handled(runtimes, AssistantAgent("ada", model, memory=[memory]))
    assert memory.count == 1
    assert len(model.create_calls) == 1
    assert heard == [heard[0]] * 3


async def test_the_next_message_goes_on_where_the_last_one_ended(runtimes: Runtimes) -> None:
    model = ReplayChatCompletionClient(["one", "two"])
    heard = await handled(runtimes, AssistantAgent("ada", model), "first", "second", attempts=2)
    assert len(model.create_calls) == 2
    assert heard[-1][1] == [
        ("UserMessage", "first"),
        ("AssistantMessage", "one"),
        ("UserMessage", "second"),
        ("AssistantMessage", "two"),
    ]


async def test_summaries_of_its_context_are_recorded_as_well(runtimes: Runtimes) -> None:
    summaries, model = ReplayChatCompletionClient(["short"]), ReplayChatCompletionClient(["one", "two"])
    context = SummarisingChatCompletionContext(summaries, max_messages=2, keep=1)
    template = AssistantAgent("ada", model, model_context=context)
    await handled(runtimes, template, "first", "second", attempts=2)
    assert len(summaries.create_calls) == 1
    assert len(model.create_calls) == 2


def test_a_client_that_records_already_is_taken_as_it_is() -> None:
    client = RecordedChatCompletionClient(ReplayChatCompletionClient(["one"]))
    assert AssistantAgent("ada", client)._setup.client is client
