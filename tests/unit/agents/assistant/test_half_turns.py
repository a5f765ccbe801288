"""A turn that fails or is cancelled leaves no half turn in the context. AutoGen's leaves calls without results."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from callboard.agents.draft import CUT_OFF
from callboard.agents.errors import NoResponseError
from callboard.core.cancellation import CancellationToken
from callboard.errors import MisuseError
from callboard.memory.contexts import SummarisingChatCompletionContext, UnboundedChatCompletionContext
from callboard.memory.llm_messages import FunctionExecutionResultMessage, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.models.errors import ModelConnectionError
from tests.helpers.eventually import eventually

from .talking import assistant, calls, prompts, remembered, said, short

BEFORE = [("UserMessage", "before"), ("AssistantMessage", "ok")]
GONE = ModelConnectionError("m", "gone")


class Hanging:
    """A tool that does not end, and one that does."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.quick_ended = False

    async def hang(self) -> str:
        """Hangs."""
        self.has_begun.set()
        await asyncio.Event().wait()
        return "never"

    async def quick(self) -> str:
        """Ends."""
        self.quick_ended = True
        return "quick"

    def tools(self) -> list[Any]:
        return [self.hang, self.quick]


async def results(agent: Any) -> list[str]:
    messages = await agent.model_context.get_messages()
    last = messages[-1]
    assert isinstance(last, FunctionExecutionResultMessage)
    return [one.content for one in last.content]


async def test_an_error_of_the_model_takes_everything_back() -> None:
    agent, model = assistant("ok", GONE, "fine", system_message=None)
    await agent.run(task="before")
    with pytest.raises(ModelConnectionError):
        await agent.run(task="go")
    assert await remembered(agent) == BEFORE
    await agent.run(task="go")
    assert prompts(model)[2] == [*BEFORE, ("UserMessage", "go")]


async def test_cancelled_in_the_middle_of_the_model() -> None:
    asked = asyncio.Event()

    async def think(_: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    agent, _ = assistant("ok", think)
    await agent.run(task="before")
    token = CancellationToken()
    running = asyncio.create_task(agent.run(task="go", cancellation_token=token))
    await asked.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await remembered(agent) == BEFORE


@pytest.mark.parametrize("by_token", [False, True])
async def test_cancelled_in_the_middle_of_tools(by_token: bool) -> None:
    tools = Hanging()
    agent, model = assistant(calls("quick", "hang"), "fine", tools=tools.tools(), system_message=None)
    token = CancellationToken()
    running = asyncio.create_task(agent.run(task="go", cancellation_token=token))
    await tools.has_begun.wait()
    await eventually(lambda: tools.quick_ended)
    for _ in range(50):  # until the loop has nothing to do, so that the result has arrived
        await asyncio.sleep(0)
    (token if by_token else running).cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await results(agent) == ["quick", CUT_OFF]
    await agent.run(task="again")
    assert [kind for kind, _ in prompts(model)[1]] == [
        "UserMessage",
        "AssistantMessage",
        "FunctionExecutionResultMessage",
        "UserMessage",
    ]


async def test_calls_that_were_not_begun_are_taken_back() -> None:
    agent, _ = assistant("ok", calls("quick"), tools=Hanging().tools())
    await agent.run(task="before")
    stream = agent.run_stream(task="go", output_task_messages=False)
    assert short(await anext(stream)) == ("calls", "quick")
    await stream.aclose()
    assert await remembered(agent) == BEFORE


async def test_a_reader_that_left_without_closing() -> None:
    tools = Hanging()
    agent, model = assistant(calls("quick"), "fine", tools=tools.tools(), system_message=None)
    left = agent.on_messages_stream([], CancellationToken())
    assert short(cast("Any", await anext(left))) == ("calls", "quick")
    assert await said(agent) == [("TextMessage", "fine"), ("result", 1)]
    assert prompts(model)[1] == [("UserMessage", "go")]
    with pytest.raises(MisuseError):
        await anext(left)
    assert not tools.quick_ended
    assert len(await remembered(agent)) == 2


async def test_what_was_done_stays_when_the_words_for_it_fail() -> None:
    agent, _ = assistant(calls("quick"), calls("quick"), tools=Hanging().tools(), reflect_on_tool_use=True)
    with pytest.raises(NoResponseError):
        await agent.run(task="go")
    assert await results(agent) == ["quick"]


class Forgetful(UnboundedChatCompletionContext):
    """Keeps only what it likes."""

    async def add_message(self, message: LLMMessage) -> None:
        if "secret" not in str(message.content):
            await super().add_message(message)


async def test_a_context_that_adds_as_it_likes_is_left_alone() -> None:
    agent, _ = assistant(GONE, model_context=Forgetful())
    with pytest.raises(ModelConnectionError):
        await agent.run(task="the secret")
    assert await remembered(agent) == []


async def test_a_summary_that_was_made_on_the_way_stays() -> None:
    summaries = ReplayChatCompletionClient(["all of it"])
    context = SummarisingChatCompletionContext(summaries, max_messages=2, keep=1)
    agent, _ = assistant("ok", GONE, model_context=context)
    await agent.run(task="before")
    with pytest.raises(ModelConnectionError):
        await agent.run(task="go")
    assert await remembered(agent) == [
        ("UserMessage", "Summary of the conversation so far:\nall of it"),
        ("UserMessage", "go"),
    ]
