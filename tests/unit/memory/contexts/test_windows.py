from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, strategies as st

from callboard import Log
from callboard.memory.contexts import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)
from callboard.memory.errors import ContextTooSmallError, MemoryValueError
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    UserMessage,
)

from .conversation import OneEach, answers, calls, results, says, system

WAYS: dict[str, Callable[[], ChatCompletionContext]] = {
    "unbounded": UnboundedChatCompletionContext,
    "buffered": lambda: BufferedChatCompletionContext(4),
    "head and tail": lambda: HeadAndTailChatCompletionContext(2, 3),
    "token limited": lambda: TokenLimitedChatCompletionContext(OneEach(), token_limit=6),
}


async def shown(context: ChatCompletionContext, *messages: LLMMessage) -> list[LLMMessage]:
    for message in messages:
        await context.add_message(message)
    return await context.get_messages()


# All of them


@pytest.mark.parametrize(
    "make",
    [
        UnboundedChatCompletionContext,
        partial(BufferedChatCompletionContext, 4),
        partial(HeadAndTailChatCompletionContext, 2, 3),
        partial(TokenLimitedChatCompletionContext, OneEach(), token_limit=6),
    ],
    ids=WAYS,
)
async def test_a_conversation_may_be_kept_elsewhere(make: Callable[..., ChatCompletionContext]) -> None:
    """Such as in a log of an agent's state, which others may change meanwhile."""
    kept: Log[LLMMessage] = Log([says("a")])
    context = make(messages=kept)
    assert await shown(context, answers("b")) == [says("a"), answers("b")]
    kept.extend([calls("1"), results("1"), *map(says, "cdefgh")])
    own = make(initial_messages=list(kept))
    assert await context.get_messages() == await own.get_messages()
    assert await context.save_state() == await own.save_state()
    await context.load_state({"messages": [says("new").model_dump()]})
    assert kept == [says("new")]
    await context.clear()
    assert kept == []
    with pytest.raises(MemoryValueError, match="messages"):
        make(initial_messages=[says("a")], messages=kept)


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
async def test_a_short_conversation_is_shown_as_it_is(make: Callable[[], ChatCompletionContext]) -> None:
    messages = [says("a"), answers("b")]
    assert await shown(make(), *messages) == messages


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
async def test_state_is_json_and_brings_everything_back(make: Callable[[], ChatCompletionContext]) -> None:
    picture = UserMessage(content=["look", Image.from_url("https://example.org/a.png")], source="user")
    context = make()
    await shown(context, system("s"), *map(says, "abcdefghij"), picture, calls("1"), results("1"))
    other = make()
    await other.add_message(says("old"))
    await other.load_state(json.loads(json.dumps(await context.save_state())))
    assert await other.get_messages() == await context.get_messages()
    assert len((await other.save_state())["messages"]) == 14


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
async def test_clear_forgets_everything(make: Callable[[], ChatCompletionContext]) -> None:
    context = make()
    await shown(context, says("a"))
    await context.clear()
    assert await context.get_messages() == []


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
async def test_the_shown_messages_are_a_list_of_its_own(make: Callable[[], ChatCompletionContext]) -> None:
    context = make()
    (await shown(context, says("a"))).clear()
    assert await context.get_messages() == [says("a")]


async def test_a_broken_state_is_refused() -> None:
    with pytest.raises(ValueError, match="messages"):
        await UnboundedChatCompletionContext().load_state({"messages": [{"type": "Nonsense"}]})


exchange = st.sampled_from(["says", "answers", "one call", "two calls", "results in two"])
MADE: dict[str, list[LLMMessage]] = {
    "says": [says("x")],
    "answers": [answers("y")],
    "one call": [calls("1"), results("1")],
    "two calls": [calls("1", "2"), results("1", "2")],
    "results in two": [calls("1", "2"), results("1"), results("2")],
}


def is_well_formed(messages: list[LLMMessage]) -> bool:
    """Every result has its call right before it, and every call its result, but perhaps the last."""
    asked: set[str] = set()
    for message in messages:
        if isinstance(message, FunctionExecutionResultMessage):
            ids = {result.call_id for result in message.content}
            if not ids <= asked:
                return False
            asked -= ids
        elif asked:
            return False
        elif isinstance(message, AssistantMessage) and not isinstance(message.content, str):
            asked = {call.id for call in message.content}
    return not asked


@given(kinds=st.lists(exchange, max_size=12), size=st.integers(1, 8), other=st.integers(1, 8))
async def test_calls_and_results_are_never_parted(kinds: list[str], size: int, other: int) -> None:
    messages = [message for kind in kinds for message in MADE[kind]]
    contexts: list[ChatCompletionContext] = [
        BufferedChatCompletionContext(size, messages),
        HeadAndTailChatCompletionContext(size, other, messages),
        TokenLimitedChatCompletionContext(OneEach(), token_limit=size + 2, initial_messages=messages),
    ]
    for context in contexts:
        assert is_well_formed(await context.get_messages())


# One by one


async def test_initial_messages_are_the_beginning() -> None:
    context = UnboundedChatCompletionContext([says("a")])
    assert await shown(context, says("b")) == [says("a"), says("b")]


async def test_a_buffer_shows_the_newest() -> None:
    assert await shown(BufferedChatCompletionContext(2), *map(says, "abc")) == [says("b"), says("c")]


async def test_a_buffer_never_starts_with_a_result_without_its_call() -> None:
    context = BufferedChatCompletionContext(3)
    messages = [calls("1", "2"), results("1"), results("2"), says("a")]
    assert await shown(context, *messages) == [says("a")]


async def test_head_and_tail_say_how_much_is_left_out() -> None:
    context = HeadAndTailChatCompletionContext(1, 2)
    assert await shown(context, *map(says, "abcdef")) == [
        says("a"),
        UserMessage(content="Skipped 3 messages.", source="System"),
        says("e"),
        says("f"),
    ]


async def test_head_and_tail_do_not_cut_a_call_from_its_result() -> None:
    context = HeadAndTailChatCompletionContext(2, 2)
    messages = [says("a"), calls("1"), results("1"), says("b"), calls("2"), results("2"), says("c")]
    assert await shown(context, *messages) == [
        says("a"),
        UserMessage(content="Skipped 5 messages.", source="System"),
        says("c"),
    ]


async def test_tokens_limit_from_the_middle() -> None:
    context = TokenLimitedChatCompletionContext(OneEach(), token_limit=4)
    assert await shown(context, *map(says, "abcdefgh")) == list(map(says, "abgh"))


async def test_without_a_limit_it_is_the_models() -> None:
    context = TokenLimitedChatCompletionContext(OneEach(room=3))
    assert await shown(context, *map(says, "abcdefgh")) == list(map(says, "agh"))


async def test_tools_count() -> None:
    context = TokenLimitedChatCompletionContext(OneEach(), token_limit=4, tool_schema=[{"name": "f"}])
    assert await shown(context, *map(says, "abcdefgh")) == list(map(says, "agh"))


async def test_leading_system_messages_and_the_newest_exchange_are_always_shown() -> None:
    context = TokenLimitedChatCompletionContext(OneEach(), token_limit=4)
    messages = [system("s"), *map(says, "abc"), calls("1"), results("1")]
    assert await shown(context, *messages) == [system("s"), says("a"), calls("1"), results("1")]


async def test_messages_that_can_not_fit_are_an_error() -> None:
    context = TokenLimitedChatCompletionContext(OneEach(), token_limit=2)
    with pytest.raises(ContextTooSmallError, match="1 tokens too many") as raised:
        await shown(context, system("s"), says("a"), calls("1"), results("1"))
    assert raised.value.excess == 1
    assert raised.value.permanent


async def test_a_long_conversation_is_counted_few_times() -> None:
    counter = OneEach()
    context = TokenLimitedChatCompletionContext(counter, token_limit=100)
    assert len(await shown(context, *[says("x")] * 10_000)) == 100
    assert counter.counted < 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: BufferedChatCompletionContext(0),
        lambda: HeadAndTailChatCompletionContext(0, 1),
        lambda: HeadAndTailChatCompletionContext(1, -1),
        lambda: TokenLimitedChatCompletionContext(OneEach(), token_limit=0),
    ],
)
def test_sizes_have_to_be_positive(make: Callable[[], object]) -> None:
    with pytest.raises(MemoryValueError, match="it must be at least 1"):
        make()
