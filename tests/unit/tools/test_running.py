"""The calls of a model's answer: each once per message, each with a result that the model can read."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from callboard import CancellationToken, ClosureContext, MessageContext, Question, TopicId, asking_by
from callboard.broker.errors import FencedError
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult, Image
from callboard.tools import (
    FunctionTool,
    ResultLimits,
    StaticStreamWorkbench,
    StaticWorkbench,
    ToolEvent,
    ToolResult,
    ToolSchema,
    Workbench,
    run_tools,
)
from callboard.tools.call import IfUnknown
from callboard.tools.errors import ToolEndedError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure
from tests.unit.recording import context

from .test_static import Steps

Handler = Callable[[MessageContext], Awaitable[Any]]


def asked(name: str, arguments: str = "{}", id: str = "call_1") -> FunctionCall:
    return FunctionCall(id=id, arguments=arguments, name=name)


def shown(results: Sequence[FunctionExecutionResult]) -> list[tuple[str, bool | None, str]]:
    return [(one.call_id, one.is_error, one.content) for one in results]


class Tools:
    """Tools that remember how often they ran."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.keys: list[str] = []
        self.workbench = StaticWorkbench(
            [FunctionTool(tool) for tool in (self.note, self.fail, self.hang, self.charge, self.step)]
        )

    async def note(self, what: str = "") -> str:
        """Writes something down."""
        self.ran.append(what)
        return f"noted {what}, as number {len(self.ran)}"

    async def fail(self) -> None:
        """Fails."""
        self.ran.append("fail")
        raise LookupError("nothing there")

    async def hang(self) -> None:
        """Never ends."""
        self.ran.append("hang")
        try:
            await asyncio.Event().wait()
        finally:
            self.ran.append("ended")

    async def charge(self, cents: int, idempotency_key: str) -> str:
        """Takes money."""
        self.keys.append(idempotency_key)
        return "charged"

    async def step(self, ctx: MessageContext, what: str) -> str:
        """Does a step of its own once."""
        self.keys.append(ctx.idempotency_key("charge"))
        return await ctx.once("step", self.note, what)


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    made = Runtimes(f"memory://tools-{os.urandom(4).hex()}")
    yield made
    await made.close()


async def handled(runtimes: Runtimes, handler: Handler, attempts: int = 2, **options: Any) -> list[Any]:
    """What a handler returned in each attempt, of which all but the last fail."""
    seen: list[Any] = []

    async def on_note(_: ClosureContext, message: Note, ctx: MessageContext) -> None:
        seen.append(await handler(ctx))
        if ctx.attempt < attempts:
            raise RuntimeError("after the tools")

    runtime = runtimes.new(**options)
    await closure(runtime, "caller", on_note, "notes")
    runtime.start()
    await runtime.publish_message(Note(), TopicId("notes", "a"))
    await eventually(lambda: len(seen) == attempts)
    await runtime.stop_when_idle()
    return seen


async def test_what_the_model_can_read_is_a_result_in_the_order_of_the_calls(tools: Tools) -> None:
    others = [FunctionTool(tool, timeout=60) for tool in (tools.note, tools.fail)]  # that are to end in time
    results = await run_tools(
        [
            asked("hang", id="a"),
            asked("note", '{"what": "x"}', id="b"),
            asked("note", '{"what": ', id="c"),
            asked("notes", id="d"),
            asked("note", '{"wat": 1}', id="e"),
            asked("fail", id="f"),
        ],
        StaticWorkbench([FunctionTool(tools.hang), *others]),
        timeout=0.05,
    )
    assert [(one.call_id, one.name, one.is_error) for one in results] == [
        ("a", "hang", True),
        ("b", "note", False),
        ("c", "note", True),
        ("d", "notes", True),
        ("e", "note", True),
        ("f", "fail", True),
    ]
    texts = [one.content for one in results]
    assert texts[0] == "hang did not end within 0.05 s and was given up"
    assert texts[1] == "noted x, as number 2"
    assert "not valid JSON" in texts[2]
    assert "Did you mean 'note'" in texts[3]
    assert "Did you mean 'what'" in texts[4]
    assert texts[5] == "LookupError: nothing there"
    assert await run_tools([], tools.workbench) == []


async def test_calls_run_at_the_same_time_within_a_bound() -> None:
    running, most, release = 0, 0, asyncio.Event()

    async def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return "done"

    calls = [asked("work", id=str(number)) for number in range(5)]
    answer = asyncio.ensure_future(run_tools(calls, StaticWorkbench([FunctionTool(work)]), concurrency=3))
    await eventually(lambda: running == 3)
    release.set()
    assert [one.content for one in await answer] == ["done"] * 5
    assert most == 3


async def test_the_same_call_twice_in_one_answer_is_made_once(tools: Tools) -> None:
    same = asked("note", '{"what": "x"}')
    other = asked("note", '{"what": "y"}')
    nameless = asked("note", '{"what": "z"}', id="")
    results = await run_tools([same, other, same, nameless, nameless], tools.workbench)
    assert sorted(tools.ran) == ["x", "y", "z", "z"]
    assert [one.content.split(",")[0] for one in results] == [f"noted {what}" for what in "xyxzz"]
    assert results[0] == results[2]


async def test_results_that_were_recorded_are_not_made_again(runtimes: Runtimes, tools: Tools) -> None:
    async def handler(ctx: MessageContext) -> Any:
        # Many models give the same id to every call. The second turn repeats the first.
        calls = [asked("note", '{"what": "x"}'), asked("note", '{"what": "y"}'), asked("fail", id="2")]
        return [shown(await run_tools(calls, tools.workbench, ctx)) for _ in range(2)]

    first, second = await handled(runtimes, handler)
    assert first == second
    assert sorted(tools.ran) == ["fail", "fail", "x", "x", "y", "y"]
    assert first[0] != first[1]


async def test_the_handler_is_found_without_its_context(runtimes: Runtimes, tools: Tools) -> None:
    async def handler(ctx: MessageContext) -> Any:
        return shown(await run_tools([asked("note")], tools.workbench))

    first, second = await handled(runtimes, handler)
    assert first == second
    assert tools.ran == [""]


async def test_a_call_that_was_cut_off_is_made_again_with_the_same_key(
    runtimes: Runtimes, tools: Tools
) -> None:
    async def handler(ctx: MessageContext) -> Any:
        calls = [asked("charge", '{"cents": 1}', id="a"), asked("charge", '{"cents": 1}', id="b")]
        return shown(await run_tools(calls, tools.workbench, Unrecorded.of(ctx)))

    await handled(runtimes, handler)
    assert len(tools.keys) == 4
    assert len(set(tools.keys)) == 2
    assert tools.keys[:2] == tools.keys[2:]


class Unrecorded(MessageContext):
    """A context whose records are lost, as when a process dies before each of them."""

    @classmethod
    def of(cls, ctx: MessageContext) -> MessageContext:
        return cls(None, None, False, CancellationToken(), ctx.message_id, recorder=None, scope=ctx.scope)


async def test_steps_and_keys_of_two_calls_are_apart(runtimes: Runtimes, tools: Tools) -> None:
    async def handler(ctx: MessageContext) -> Any:
        calls = [asked("step", '{"what": "x"}', id="a"), asked("step", '{"what": "x"}', id="b")]
        return shown(await run_tools(calls, tools.workbench, ctx))

    await handled(runtimes, handler)
    assert tools.ran == ["x", "x"]
    assert len(set(tools.keys)) == 2


@contextlib.asynccontextmanager
async def cut_off_when(condition: Callable[[], object]) -> AsyncIterator[CancellationToken]:
    """A token that is cancelled as soon as this is so."""
    token = CancellationToken()

    async def wait() -> None:
        await eventually(condition)
        token.cancel()

    waiting = asyncio.ensure_future(wait())
    try:
        yield token
    finally:
        waiting.cancel()


async def test_the_model_is_told_of_an_unknown_outcome_where_that_is_asked_for(
    runtimes: Runtimes, tools: Tools
) -> None:
    recorded: list[str] = []

    async def on_event(event: ToolEvent) -> None:
        if event.kind == "ended":
            recorded.append(event.call.id)

    async def handler(ctx: MessageContext) -> Any:
        calls = [asked("hang", id="a"), asked("note", id="b")]
        options: dict[str, IfUnknown] = {"hang": "tell"}
        async with cut_off_when(lambda: ctx.attempt == 1 and "hang" in tools.ran and recorded) as token:
            try:
                results = await run_tools(
                    calls,
                    tools.workbench,
                    ctx,
                    cancellation_token=token,
                    if_unknown=options,
                    on_event=on_event,
                )
            except asyncio.CancelledError:
                return "cut off"
        return shown(results)

    first, second = await handled(runtimes, handler)
    assert first == "cut off"
    assert second[0][:2] == ("a", True)
    assert "may or may not have done its work" in second[0][2]
    assert sorted(tools.ran) == ["", "ended", "hang"]


async def test_a_person_decides_about_an_unknown_outcome_after_each_crash(
    runtimes: Runtimes, tools: Tools
) -> None:
    said = ["call it again", "tell the model"]
    questions: list[Question] = []

    def decide(question: Question) -> str:
        questions.append(question)
        return said[len(questions) - 1]

    async def handler(ctx: MessageContext) -> Any:
        ran = len(tools.ran)
        calls = [asked("hang", id="a")]
        options: dict[str, IfUnknown] = {"hang": "ask"}
        async with cut_off_when(lambda: len(tools.ran) > ran) as token:
            try:
                with asking_by(decide):
                    return shown(
                        await run_tools(
                            calls, tools.workbench, ctx, cancellation_token=token, if_unknown=options
                        )
                    )
            except asyncio.CancelledError:
                return "cut off"

    first, second, third = await handled(runtimes, handler, attempts=3)
    assert (first, second) == ("cut off", "cut off")
    assert "may or may not have done its work" in third[0][2]
    assert tools.ran == ["hang", "ended"] * 2
    assert [question.choices for question in questions] == [("call it again", "tell the model", "fail")] * 2
    assert len({question.name for question in questions}) == 2


async def test_a_person_may_let_a_call_of_unknown_outcome_fail(runtimes: Runtimes, tools: Tools) -> None:
    async def handler(ctx: MessageContext) -> Any:
        calls = [asked("hang", id="a")]
        options: dict[str, IfUnknown] = {"hang": "ask"}
        async with cut_off_when(lambda: ctx.attempt == 1 and "hang" in tools.ran) as token:
            try:
                with asking_by(lambda question: "fail"):
                    await run_tools(calls, tools.workbench, ctx, cancellation_token=token, if_unknown=options)
            except (asyncio.CancelledError, ToolEndedError) as error:
                return type(error)

    assert await handled(runtimes, handler) == [asyncio.CancelledError, ToolEndedError]


async def test_a_result_that_can_not_be_recorded_is_one_that_says_so(runtimes: Runtimes) -> None:
    ran = 0

    async def large() -> str:
        nonlocal ran
        ran += 1
        return "x" * 2_000_000

    limits = ResultLimits(max_text=10**7)
    workbench = StaticWorkbench([FunctionTool(large)], limits=limits)

    async def handler(ctx: MessageContext) -> Any:
        return shown(await run_tools([asked("large")], workbench, ctx, limits=limits))

    first, second = await handled(runtimes, handler, settings={"max_claim": 1_500_000})
    assert first == second
    assert first[0][1] is True
    assert "large ran, but" in first[0][2]
    assert ran == 1


async def test_cancelling_ends_every_call(tools: Tools) -> None:
    ctx = context()
    answer = asyncio.ensure_future(
        run_tools([asked("hang", id="a"), asked("hang", id="b")], tools.workbench, ctx)
    )
    await eventually(lambda: tools.ran == ["hang", "hang"])
    ctx.cancellation_token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert tools.ran == ["hang", "hang", "ended", "ended"]


class Odd(Workbench):
    """A workbench of a user, that raises or returns something else."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    async def list_tools(self) -> list[ToolSchema]:
        return []

    async def call_tool(self, name: str, *given: Any, **options: Any) -> ToolResult:
        if self.error is not None:
            raise self.error
        return f"{name} {given}"  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("workbench", "text"),
    [(Odd(ValueError("odd")), "ValueError: odd"), (Odd(None), "x gave no result: its workbench gave none")],
)
async def test_workbenches_of_users_may_raise(workbench: Workbench, text: str) -> None:
    (result,) = await run_tools([asked("x")], workbench)
    assert (result.is_error, result.content) == (True, text)


async def test_what_takes_the_message_away_is_raised_and_ends_the_others(tools: Tools) -> None:
    class Fenced(StaticWorkbench):
        async def call_tool(self, name: Any, *args: Any, **options: Any) -> ToolResult:
            if name == "note":
                await eventually(lambda: tools.ran == ["hang"])
                raise FencedError("worker")
            return await super().call_tool(name, *args, **options)

    workbench = Fenced([FunctionTool(tools.hang), FunctionTool(tools.note)])
    with pytest.raises(FencedError):
        await run_tools([asked("hang"), asked("note")], workbench)
    assert tools.ran == ["hang", "ended"]


async def test_events_tell_what_happens_images_included() -> None:
    events: list[ToolEvent] = []
    image = Image.from_bytes(b"\x89PNG\r\n\x1a\n")

    async def on_event(event: ToolEvent) -> None:
        events.append(event)

    workbench = StaticStreamWorkbench([Steps(), FunctionTool(lambda: image, "A picture.", name="picture")])
    results = await run_tools([asked("steps"), asked("picture", id="2")], workbench, on_event=on_event)
    assert [one.content for one in results] == ["done", "[Image: image/png, 8 bytes]"]
    of_steps = [event for event in events if event.call.name == "steps"]
    assert [(event.kind, event.item) for event in of_steps] == [
        ("started", None),
        ("yielded", "one"),
        ("ended", None),
    ]
    (ended,) = [event.result for event in events if event.call.id == "2" and event.kind == "ended"]
    assert ended is not None
    assert ended.result[0].content == image


async def test_errors_of_the_callback_are_raised() -> None:
    async def on_event(event: ToolEvent) -> None:
        if event.kind == "yielded":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_tools([asked("steps")], StaticStreamWorkbench([Steps()]), on_event=on_event)


async def test_results_of_any_workbench_are_cut(tools: Tools) -> None:
    (result,) = await run_tools(
        [asked("note", f'{{"what": "{"x" * 500}"}}')], tools.workbench, limits=ResultLimits(max_text=200)
    )
    assert result.content.endswith("x... [cut here: 419 of 519 characters are missing]")
