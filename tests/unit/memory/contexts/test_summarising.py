from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from callboard import Log
from callboard.memory.contexts import SummarisingChatCompletionContext
from callboard.memory.errors import MemoryValueError, SummaryError
from callboard.memory.llm_messages import FunctionCall, Image, LLMMessage, SystemMessage, UserMessage

from .conversation import calls, results, says, system


@dataclass
class Said:
    content: str | list[FunctionCall]


class Model:
    """Answers with the number of times that it was asked, or what it was given."""

    def __init__(self, answer: str | list[FunctionCall] | None = None) -> None:
        self.asked: list[Sequence[LLMMessage]] = []
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._answer = answer

    async def create(self, messages: Sequence[LLMMessage]) -> Said:
        self.asked.append(messages)
        self.began.set()
        await self.go_on.wait()
        return Said(f"summary {len(self.asked)}" if self._answer is None else self._answer)

    def text(self) -> str:
        """The text that it was last given to summarise."""
        message = self.asked[-1][-1]
        assert isinstance(message, UserMessage)
        assert isinstance(message.content, str)
        return message.content


def summary(text: str) -> LLMMessage:
    return UserMessage(content=f"Summary of the conversation so far:\n{text}", source="summary")


async def test_a_conversation_that_is_kept_elsewhere_stays_there() -> None:
    kept: Log[LLMMessage] = Log(says(c) for c in "abcde")
    context = SummarisingChatCompletionContext(Model(), max_messages=4, keep=2, messages=kept)
    expected = [summary("summary 1"), says("d"), says("e")]
    assert await context.get_messages() == kept == expected


async def test_old_messages_become_a_summary_and_later_part_of_another() -> None:
    model = Model()
    context = SummarisingChatCompletionContext(
        model, max_messages=4, keep=2, initial_messages=[says(c) for c in "abcde"]
    )
    assert await context.get_messages() == [summary("summary 1"), says("d"), says("e")]
    assert isinstance(model.asked[0][0], SystemMessage)
    assert model.text() == "user: a\n\nuser: b\n\nuser: c"
    assert await context.get_messages() == [summary("summary 1"), says("d"), says("e")]
    await context.add_message(says("f"))
    await context.add_message(says("g"))
    assert await context.get_messages() == [summary("summary 2"), says("f"), says("g")]
    assert model.text().startswith("summary: Summary of the conversation so far:\nsummary 1")
    assert len((await context.save_state())["messages"]) == 3


async def test_a_call_and_its_results_stay_together() -> None:
    messages = [says("a"), calls("1", "2"), results("1", "2"), says("b")]
    model = Model()
    context = SummarisingChatCompletionContext(model, max_messages=3, keep=2, initial_messages=messages)
    assert await context.get_messages() == [summary("summary 1"), says("b")]
    assert model.text() == "user: a\n\nmodel calls f({}), f({})\n\nResult of f: done\nResult of f: done"


async def test_the_newest_exchange_stays_although_it_is_long() -> None:
    messages = [system("s"), calls("1", "2", "3"), results("1"), results("2"), results("3")]
    context = SummarisingChatCompletionContext(Model(), max_messages=3, keep=2, initial_messages=messages)
    for _ in range(2):  # a summary of nothing but a summary is not made
        assert await context.get_messages() == [summary("summary 1"), *messages[1:]]


async def test_one_exchange_can_not_be_summarised() -> None:
    messages = [calls("1", "2"), results("1"), results("2")]
    model = Model()
    context = SummarisingChatCompletionContext(model, max_messages=2, keep=1, initial_messages=messages)
    assert await context.get_messages() == messages
    assert model.asked == []


async def test_images_are_named_only() -> None:
    model = Model()
    picture = UserMessage(content=["look", Image.from_url("https://example.org/a.png")], source="ada")
    context = SummarisingChatCompletionContext(
        model, max_messages=2, keep=1, initial_messages=[picture, says("b"), says("c")]
    )
    await context.get_messages()
    assert model.text() == "ada: look [image]\n\nuser: b"


async def test_messages_that_come_meanwhile_are_kept_and_one_summary_is_made() -> None:
    model = Model()
    model.go_on.clear()
    context = SummarisingChatCompletionContext(
        model, max_messages=2, keep=1, initial_messages=[says(c) for c in "abc"]
    )
    both = [asyncio.create_task(context.get_messages()) for _ in range(2)]
    await model.began.wait()
    await context.add_message(says("d"))
    model.go_on.set()
    assert await both[0] == [summary("summary 1"), says("c"), says("d")]
    assert (await both[1])[-1] == says("d")


async def test_a_conversation_that_is_cleared_meanwhile_stays_empty() -> None:
    model = Model()
    model.go_on.clear()
    context = SummarisingChatCompletionContext(
        model, max_messages=2, keep=1, initial_messages=[says(c) for c in "abc"]
    )
    task = asyncio.create_task(context.get_messages())
    await model.began.wait()
    await context.clear()
    model.go_on.set()
    assert await task == []


@pytest.mark.parametrize("answer", ["", "  ", [FunctionCall("1", "{}", "f")]])
async def test_no_summary_is_an_error_and_nothing_is_lost(answer: str | list[FunctionCall]) -> None:
    messages = [says(c) for c in "abc"]
    context = SummarisingChatCompletionContext(
        Model(answer), max_messages=2, keep=1, initial_messages=messages
    )
    with pytest.raises(SummaryError, match="no summary of 2 messages"):
        await context.get_messages()
    assert len((await context.save_state())["messages"]) == 3


@pytest.mark.parametrize(("most", "keep"), [(3, 0), (3, 3), (2, 5)])
def test_sizes_have_to_fit(most: int, keep: int) -> None:
    with pytest.raises(MemoryValueError):
        SummarisingChatCompletionContext(Model(), max_messages=most, keep=keep)
