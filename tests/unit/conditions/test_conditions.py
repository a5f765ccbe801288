"""Termination conditions: the table of AutoGen's texts, and what all of them have in common."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence

import pytest

from callboard.code import CodeResult
from callboard.conditions import (
    ConditionStateError,
    ExternalTermination,
    FunctionalTermination,
    FunctionCallTermination,
    HandoffTermination,
    LatchedTermination,
    MaxMessageTermination,
    SourceMatchTermination,
    StopMessageTermination,
    TerminatedException,
    TerminationCondition,
    TextMentionTermination,
    TextMessageTermination,
    TimeoutTermination,
    TokenUsageTermination,
)
from callboard.errors import SettingValueError
from callboard.foundation import ActorError
from callboard.memory.llm_messages import FunctionExecutionResult
from callboard.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    CodeExecutionEvent,
    HandoffMessage,
    StopMessage,
    TextMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
)
from callboard.models.types import RequestUsage

Said = BaseAgentEvent | BaseChatMessage


def text(
    content: str = "hello", source: str = "writer", tokens: tuple[int, int] | None = None
) -> TextMessage:
    usage = None if tokens is None else RequestUsage(prompt_tokens=tokens[0], completion_tokens=tokens[1])
    return TextMessage(content=content, source=source, models_usage=usage)


def thought(content: str = "hm", source: str = "writer") -> ThoughtEvent:
    return ThoughtEvent(content=content, source=source)


def ran(name: str) -> ToolCallExecutionEvent:
    result = FunctionExecutionResult(call_id="1", content="", is_error=False, name=name)
    return ToolCallExecutionEvent(content=[result], source="writer")


STOP = StopMessage(content="enough", source="writer")
TO_USER = HandoffMessage(content="yours", source="writer", target="user")


def external() -> ExternalTermination:
    condition = ExternalTermination()
    condition.set()
    return condition


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Async:
    async def __call__(self, messages: Sequence[Said]) -> bool:
        return len(messages) > 1


async def is_long(messages: Sequence[Said]) -> bool:
    return len(messages) > 1


Make = Callable[[], TerminationCondition]
Row = tuple[str, Make, list[Said], str | None]

TABLE: list[Row] = [
    ("max: below", lambda: MaxMessageTermination(3), [text(), text()], None),
    ("max: events do not count", lambda: MaxMessageTermination(2), [text(), thought()], None),
    (
        "max: reached",
        lambda: MaxMessageTermination(2),
        [text(), text(), text()],
        "Maximum number of messages 2 reached, current message count: 3",
    ),
    (
        "max: events count where asked",
        lambda: MaxMessageTermination(2, include_agent_event=True),
        [text(), thought()],
        "Maximum number of messages 2 reached, current message count: 2",
    ),
    ("mention", lambda: TextMentionTermination("DONE"), [text(), text("all DONE!")], "Text 'DONE' mentioned"),
    ("mention: case matters", lambda: TextMentionTermination("DONE"), [text("done")], None),
    (
        "mention: in an event",
        lambda: TextMentionTermination("DONE"),
        [thought("DONE")],
        "Text 'DONE' mentioned",
    ),
    (
        "mention: in an output",
        lambda: TextMentionTermination("DONE"),
        [CodeExecutionEvent(retry_attempt=0, result=CodeResult(0, "DONE"), source="x")],
        "Text 'DONE' mentioned",
    ),
    ("mention: other source", lambda: TextMentionTermination("DONE", ["critic"]), [text("DONE")], None),
    ("mention: no sources", lambda: TextMentionTermination("DONE", []), [text("DONE")], None),
    (
        "mention: source",
        lambda: TextMentionTermination("DONE", sources=["critic", "writer"]),
        [text("DONE")],
        "Text 'DONE' mentioned",
    ),
    ("stop", StopMessageTermination, [text(), STOP], "Stop message received"),
    ("stop: none", StopMessageTermination, [text("Stop message received")], None),
    ("handoff", lambda: HandoffTermination("user"), [TO_USER], "Handoff to user from writer detected."),
    ("handoff: to another", lambda: HandoffTermination("critic"), [TO_USER], None),
    (
        "tokens: total",
        lambda: TokenUsageTermination(max_total_token=10),
        [text(tokens=(4, 3)), text(tokens=(2, 1))],
        "Token usage limit reached, total token count: 10, prompt token count: 6, completion token count: 4.",
    ),
    (
        "tokens: prompt",
        lambda: TokenUsageTermination(max_prompt_token=6),
        [text(tokens=(6, 0))],
        "Token usage limit reached, total token count: 6, prompt token count: 6, completion token count: 0.",
    ),
    (
        "tokens: completion",
        lambda: TokenUsageTermination(max_completion_token=4),
        [text(), text(tokens=(0, 5))],
        "Token usage limit reached, total token count: 5, prompt token count: 0, completion token count: 5.",
    ),
    ("tokens: below", lambda: TokenUsageTermination(10, 7, 4), [text(tokens=(6, 3))], None),
    ("external", external, [], "External termination requested"),
    ("external: not set", ExternalTermination, [STOP], None),
    ("source", lambda: SourceMatchTermination(["critic", "writer"]), [text()], "'writer' answered"),
    ("source: another", lambda: SourceMatchTermination(["critic"]), [text()], None),
    ("source: an event", lambda: SourceMatchTermination(["writer"]), [thought()], "'writer' answered"),
    ("text: anybody's", TextMessageTermination, [text()], "Text message received from 'writer'"),
    ("text: other types", TextMessageTermination, [STOP, thought()], None),
    (
        "text: source",
        lambda: TextMessageTermination("writer"),
        [text()],
        "Text message received from 'writer'",
    ),
    ("text: another", lambda: TextMessageTermination("critic"), [text()], None),
    (
        "call",
        lambda: FunctionCallTermination("approve"),
        [ran("approve")],
        "Function 'approve' was executed.",
    ),
    ("call: another", lambda: FunctionCallTermination("approve"), [ran("reject"), text("approve")], None),
    (
        "function",
        lambda: FunctionalTermination(lambda messages: len(messages) > 1),
        [text(), text()],
        "Functional termination condition met",
    ),
    ("function: no", lambda: FunctionalTermination(lambda messages: False), [text()], None),
    ("async", lambda: FunctionalTermination(is_long), [text()] * 2, "Functional termination condition met"),
    ("async: no", lambda: FunctionalTermination(is_long), [text()], None),
    (
        "async object",
        lambda: FunctionalTermination(Async()),
        [text()] * 2,
        "Functional termination condition met",
    ),
    ("timeout: over", lambda: TimeoutTermination(0), [], "Timeout of 0 seconds reached"),
    ("timeout: not yet", lambda: TimeoutTermination(1e6), [text()], None),
]
REACHED = [row for row in TABLE if row[3] is not None]


def params(rows: list[Row]) -> list[object]:
    return [pytest.param(make, messages, reason, id=name) for name, make, messages, reason in rows]


@pytest.mark.parametrize(("make", "messages", "reason"), params(TABLE))
async def test_a_condition_is_reached_as_in_autogen(
    make: Make, messages: list[Said], reason: str | None
) -> None:
    condition = make()
    assert not condition.terminated

    stop = await condition(messages)

    assert (None if stop is None else stop.content) == reason
    assert stop is None or stop.source == type(condition).__name__
    assert condition.terminated == (reason is not None)


@pytest.mark.parametrize(("make", "messages", "reason"), params(REACHED))
async def test_a_reached_condition_raises_until_it_is_reset(
    make: Make, messages: list[Said], reason: str
) -> None:
    condition = make()
    await condition(messages)

    with pytest.raises(TerminatedException, match=r"^Termination condition has already been reached$"):
        await condition(messages)
    await condition.reset()

    assert not condition.terminated
    if isinstance(condition, ExternalTermination):
        assert await condition(messages) is None
        condition.set()
    stop = await condition(messages)
    assert stop is not None
    assert stop.content == reason


@pytest.mark.parametrize(("make", "messages", "reason"), params(TABLE))
async def test_state_goes_through_json_into_an_equal_condition(
    make: Make, messages: list[Said], reason: str | None
) -> None:
    condition, other = make(), make()
    await condition(messages)

    await other.load_state(json.loads(json.dumps(await condition.save_state())))

    assert other.terminated == condition.terminated
    assert await other.save_state() == await condition.save_state()


@pytest.mark.parametrize(("make", "messages", "reason"), params(TABLE))
async def test_a_copy_counts_for_itself(make: Make, messages: list[Said], reason: str | None) -> None:
    condition = make()
    before = await condition.save_state()

    await copy.deepcopy(condition)(messages)

    assert not condition.terminated
    assert await condition.save_state() == before


@pytest.mark.parametrize(
    "make", [make for _, make, _, _ in TABLE], ids=[f"{index} {row[0]}" for index, row in enumerate(TABLE)]
)
async def test_a_state_of_something_else_is_refused(make: Make) -> None:
    with pytest.raises(ConditionStateError, match=r"can't load this state: .*Field required"):
        await make().load_state({"else": 1})


async def test_counts_go_on_where_they_were_saved() -> None:
    makes: list[Make] = [lambda: MaxMessageTermination(3), lambda: TokenUsageTermination(10)]
    for make in makes:
        before, after = make(), make()
        assert await before([text(tokens=(3, 3)), text()]) is None

        await after.load_state(await before.save_state())

        assert await after([text(tokens=(2, 2))]) is not None


async def test_a_count_below_zero_is_no_state() -> None:
    with pytest.raises(ConditionStateError, match="message_count"):
        await MaxMessageTermination(3).load_state({"message_count": -1})


async def test_time_begins_with_the_first_question() -> None:
    clock = Clock()
    condition = TimeoutTermination(60, clock=clock)
    clock.now += 1000

    assert await condition([text()]) is None
    clock.now += 59
    assert await condition([text()]) is None
    clock.now += 1
    assert await condition([]) is not None


async def test_time_goes_on_while_the_process_is_restarted() -> None:
    clock = Clock()
    before, after = TimeoutTermination(60, clock=clock), TimeoutTermination(60, clock=clock)
    assert await before([text()]) is None

    clock.now += 60
    await after.load_state(await before.save_state())

    assert await after([]) is not None


async def test_time_begins_again_after_a_reset() -> None:
    clock = Clock()
    condition = TimeoutTermination(60, clock=clock)
    await condition([])
    clock.now += 50
    await condition.reset()
    clock.now += 1000

    assert await condition([]) is None
    clock.now += 59
    assert await condition([]) is None


async def test_a_set_that_nobody_saw_is_in_the_state() -> None:
    after = ExternalTermination()

    await after.load_state(await external().save_state())

    assert not after.terminated
    assert await after([]) is not None


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: MaxMessageTermination(0), "max_messages=0"),
        (TokenUsageTermination, "max_total_token=None"),
        (lambda: TokenUsageTermination(0), "max_total_token=0"),
        (lambda: TokenUsageTermination(max_prompt_token=-1), "max_prompt_token=-1"),
        (lambda: TokenUsageTermination(max_completion_token=0), "max_completion_token=0"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(make: Make, setting: str) -> None:
    with pytest.raises(SettingValueError, match=f"^{setting} can't work: it must be ") as raised:
        make()
    assert isinstance(raised.value, ValueError)


def test_the_exception_is_caught_as_either_of_autogens() -> None:
    assert issubclass(TerminatedException, RuntimeError)
    assert issubclass(TerminatedException, ActorError)


async def test_a_condition_of_the_users_is_one_method() -> None:
    class Questions(LatchedTermination):
        async def reason(self, messages: Sequence[Said]) -> str | None:
            return "A question" if any("?" in said.to_text() for said in messages) else None

    condition = Questions() | MaxMessageTermination(5)

    stop = await condition([text("why?")])

    assert stop is not None
    assert (stop.content, stop.source) == ("A question", "Questions")


async def test_a_condition_written_for_autogen_works_unchanged_and_saves_nothing() -> None:
    class Theirs(TerminationCondition):
        def __init__(self) -> None:
            self.reached = False

        @property
        def terminated(self) -> bool:
            return self.reached

        async def __call__(self, messages: Sequence[Said]) -> StopMessage | None:
            self.reached = True
            return StopMessage(content="mine", source="Theirs")

        async def reset(self) -> None:
            self.reached = False

    condition = Theirs()
    assert await condition([]) is not None

    state = await condition.save_state()
    await condition.load_state(state)

    assert state == {}
