"""Handlers that ask a person and wait for the answer without a process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    CannotAskError,
    ClosureContext,
    FunctionCall,
    InputAnsweredError,
    InputError,
    InputExpiredError,
    InputRequest,
    InputRequestUnknownError,
    InputValueError,
    InputWithdrawnError,
    MessageContext,
    NotAllowedToAnswerError,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    rpc,
)
from callboard.broker.errors import FencedError, RequestTimeoutError
from callboard.broker.redis.operations.agents import agent as seen
from callboard.broker.telemetry import Released, WaitsForAnswer, attach
from callboard.core.people import Question
from callboard.runtime.effects import PAUSE, noting
from callboard.runtime.execution import usage_run
from callboard.runtime.steps import running_context
from callboard.tools import FunctionTool, StaticWorkbench, run_tools
from callboard.tools.runner import ToolEvent
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters, stored

Work = Callable[[MessageContext, str], Awaitable[object]]
REAL = pytest.mark.real_server("what it is about has nothing to do with the server, and memory:// is slow")


class Scene:
    """One agent type, `worker`, whose handler is a function; what it returned or raised is kept in `ended`."""

    def __init__(self, runtimes: Runtimes, runtime: RedisAgentRuntime, work: Work) -> None:
        self.runtimes = runtimes
        self.runtime = runtime
        self.work = work
        self.ended: list[Any] = []

    @classmethod
    async def begin(cls, runtimes: Runtimes, work: Work, *texts: str, **options: Any) -> Scene:
        scene = cls(runtimes, await runtimes.started(**options), work)
        await scene.register(scene.runtime)
        for text in texts or ("first",):
            await scene.runtime.publish_message(Note(text=text), TopicId("work", "a"))
        return scene

    async def register(self, runtime: RedisAgentRuntime) -> None:
        async def on_note(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
            try:
                self.ended.append(await self.work(ctx, message.text))
            except Exception as error:
                self.ended.append(error)
                raise

        await closure(runtime, "worker", on_note, "work")

    async def open(self, count: int = 1) -> list[InputRequest]:
        """The questions that are open, once there are so many and the worker has nothing left to do."""
        found: list[InputRequest] = []

        async def are_there() -> bool:
            found[:] = await self.runtime.inputs.list()
            return len(found) == count and not (await self.runtime.transport.idle())[1]

        await eventually(are_there, what=lambda: (found, self.ended))
        return found

    async def answer(self, value: Any, **options: Any) -> None:
        """Answers the one question that is open, and waits until the handler has ended."""
        (request,) = await self.open()
        await self.runtime.inputs.answer(request.id, value, **options)
        await self.over()

    async def over(self, count: int = 1) -> None:
        await eventually(lambda: len(self.ended) >= count)


@REAL
async def test_an_attempt_that_asks_nothing_withdraws_what_an_earlier_one_asked(runtimes: Runtimes) -> None:
    """What a handler does may depend on its state, or on what runs: it was reset, or is another version."""
    asks = True

    async def work(ctx: MessageContext, text: str) -> object:
        return await ctx.ask("Really?") if asks else text

    scene = await Scene.begin(runtimes, work)
    (request,) = await scene.open()
    asks = False
    await scene.runtime.control.reset(AgentId("worker", "a"))
    await scene.over()
    assert await scene.open(0) == []
    assert (await scene.runtime.inputs.get(request.id)).status == "withdrawn"
    assert await stored(scene.runtime, "once:") == []


async def test_a_handler_asks_and_goes_on_with_the_answer(runtimes: Runtimes) -> None:
    steps: list[str] = []

    async def step() -> str:
        steps.append("step")
        return "done"

    async def work(ctx: MessageContext, text: str) -> object:
        if text == "second":
            return text
        await ctx.once("step", step)
        return await ctx.ask("Really?"), ctx.attempt

    scene = await Scene.begin(runtimes, work, "first", "second")
    (request,) = await scene.open()
    assert (request.question, request.agent, request.run_path) == ("Really?", AgentId("worker", "a"), None)
    await scene.runtime.stop_when_idle()  # to wait for a person is nothing left to do
    assert scene.ended == []
    scene.runtime.start()
    await scene.runtime.inputs.answer(request.id, "yes", by="ada")
    await scene.over(2)
    assert (scene.ended, steps) == ([("yes", 1), "second"], ["step"])
    await scene.runtime.stop_when_idle()
    with pytest.raises(InputAnsweredError, match="before by ada"):
        await scene.runtime.inputs.answer(request.id, "no")
    with pytest.raises(InputRequestUnknownError):
        await scene.runtime.inputs.answer("nothing", "no")
    assert await scene.runtime.inputs.list() == []
    assert (await scene.runtime.inputs.get(request.id)).answer == "yes"
    assert await stored(scene.runtime, "once:", "suspended:", "inputs", "busy:", "tries:") == []


async def test_who_looks_at_an_agent_sees_that_it_waits(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> str:
        return await ctx.ask("Go on?")

    scene = await Scene.begin(runtimes, work)
    await scene.open()
    assert (await seen(scene.runtime.transport, "worker", "a")).suspended
    await scene.answer("yes")
    assert not (await seen(scene.runtime.transport, "worker", "a")).suspended


@REAL
async def test_a_listener_is_told_that_a_handler_waits(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> tuple[str, str]:
        return await asyncio.gather(ctx.ask("First?"), ctx.ask("Second?"))

    events: list[object] = []
    detach = attach(events.append)
    try:
        scene = await Scene.begin(runtimes, work)
        first, second = await scene.open(2)
        await scene.runtime.inputs.answer(first.id, "yes")
        await scene.runtime.inputs.answer(second.id, "no")
        await scene.over()
    finally:
        detach()
    waits = [event for event in events if isinstance(event, WaitsForAnswer)]
    assert (waits[0].agent, waits[0].questions) == ("worker/a", 2)
    assert not any(isinstance(event, Released) for event in events)


async def test_questions_that_are_asked_at_once_are_all_there_and_answered_in_any_order(
    runtimes: Runtimes,
) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        return await asyncio.gather(ctx.ask("Left?"), ctx.ask("Right?"), ctx.ask("Right?"))

    scene = await Scene.begin(runtimes, work)
    left, right, again = await scene.open(3)
    assert [left.question, right.question, again.question] == ["Left?", "Right?", "Right?"]
    await scene.runtime.inputs.answer(again.id, "a")
    await scene.runtime.inputs.answer(right.id, "r")
    assert await scene.open() == [left]
    await scene.runtime.inputs.answer(left.id, "l")
    await scene.over()
    assert scene.ended == [["l", "r", "a"]]


async def in_a_group(ctx: MessageContext, text: str) -> object:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.ask("Left?")), group.create_task(ctx.ask("Right?"))]
    return [task.result() for task in tasks]


async def caught(ctx: MessageContext, text: str) -> object:
    """What nobody should write; it must do no harm."""
    found = []
    for question in ("Left?", "Right?"):
        try:
            found.append(await ctx.ask(question))
        except BaseException:
            found.append("nothing")
    return found


async def gathered(ctx: MessageContext, text: str) -> object:
    return await asyncio.gather(ctx.ask("Left?"), ctx.ask("Right?"), return_exceptions=True)


async def in_steps(ctx: MessageContext, text: str) -> object:
    async def ask(question: str) -> str:
        with contextlib.suppress(BaseException):
            return await ctx.ask(question)
        return "nothing"

    return await asyncio.gather(ctx.once("left", ask, "Left?"), ctx.once("right", ask, "Right?"))


@REAL
@pytest.mark.parametrize("work", [in_a_group, caught, gathered, in_steps])
async def test_however_a_handler_takes_it_nothing_is_committed_before_the_answers(
    runtimes: Runtimes, work: Work
) -> None:
    committed: list[object] = []

    async def on_note(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        found = await work(ctx, message.text)
        await agent.publish_message(Note(text=str(found)), TopicId("found", "a"))

    async def on_found(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        committed.append(message.text)

    runtime = await runtimes.started()
    await closure(runtime, "worker", on_note, "work")
    await closure(runtime, "listener", on_found, "found")
    scene = Scene(runtimes, runtime, work)
    await runtime.publish_message(Note(), TopicId("work", "a"))
    for request in await scene.open(2):
        assert committed == []
        await runtime.inputs.answer(request.id, request.question[0])
    await eventually(lambda: bool(committed))
    assert committed == ["['L', 'R']"]


@REAL
async def test_what_runs_beside_a_question_is_finished_and_recorded(runtimes: Runtimes) -> None:
    steps: list[str] = []

    async def step() -> str:
        steps.append("step")
        await asyncio.sleep(5 * PAUSE)  # longer than the handler waits for the next step
        return "done"

    async def work(ctx: MessageContext, text: str) -> object:
        return await asyncio.gather(ctx.ask("Really?"), ctx.once("step", step))

    scene = await Scene.begin(runtimes, work)
    await scene.answer("yes")
    assert (scene.ended, steps) == ([["yes", "done"]], ["step"])


@REAL
async def test_a_branch_beside_a_question_goes_on_from_step_to_step(runtimes: Runtimes) -> None:
    steps: list[str] = []

    async def step(name: str) -> str:
        steps.append(name)
        return name

    async def branch(ctx: MessageContext) -> str:
        for name in ("one", "two", "three"):
            await ctx.once(name, step, name)
        return "done"

    async def work(ctx: MessageContext, text: str) -> object:
        return await asyncio.gather(ctx.ask("Really?"), branch(ctx))

    scene = await Scene.begin(runtimes, work)
    await scene.open()
    assert steps == ["one", "two", "three"]
    await scene.answer("yes")
    assert (scene.ended, steps) == ([["yes", "done"]], ["one", "two", "three"])


@REAL
async def test_a_handler_that_has_ended_to_wait_makes_no_effect(runtimes: Runtimes) -> None:
    effects: list[str] = []

    async def effect() -> None:
        effects.append("made")

    async def work(ctx: MessageContext, text: str) -> object:
        try:
            return await ctx.ask("Really?")
        except BaseException:
            await ctx.once("effect", effect)
            raise

    scene = await Scene.begin(runtimes, work)
    await scene.answer("yes")
    assert (scene.ended, effects) == (["yes"], [])


@REAL
@pytest.mark.parametrize("left_after", ["at once", "while it asks", "when it waits"])
async def test_a_task_that_asks_and_is_left_behind_ends_quietly(runtimes: Runtimes, left_after: str) -> None:
    left: list[asyncio.Task[object]] = []
    told: list[dict[str, Any]] = []

    async def work(ctx: MessageContext, text: str) -> object:
        left.append(asyncio.create_task(ctx.ask("Really?")))
        if left_after == "while it asks":
            await asyncio.sleep(0)
        elif left_after == "when it waits":
            await asyncio.wait(left)
        return text

    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    scene = await Scene.begin(runtimes, work)
    await eventually(lambda: bool(left) and all(task.done() for task in left))
    if left_after == "when it waits":
        await scene.open()
    left.clear()
    gc.collect()
    # One whose handler had ended before asks nothing, and nobody would ever ask again: that is told.
    assert [context for context in told if not isinstance(context.get("exception"), FencedError)] == []
    assert not told or left_after != "when it waits"


async def test_a_tool_among_three_asks_and_the_others_are_not_called_again(runtimes: Runtimes) -> None:
    called: list[str] = []

    async def book(place: str, ctx: MessageContext) -> str:
        called.append(place)
        return place if place != "Rome" else f"Rome {await ctx.ask('Rome is full. Elsewhere?', timeout=60)}"

    async def work(ctx: MessageContext, text: str) -> object:
        bench = StaticWorkbench([FunctionTool(book, "Books.", timeout=0.5)])
        places = ("Oslo", "Rome", "Bern")
        calls = [FunctionCall(id=place, name="book", arguments=f'{{"place": "{place}"}}') for place in places]
        told = await run_tools(calls, bench, ctx, if_unknown={"book": "tell"}, concurrency=2)
        return [one.content for one in told]

    scene = await Scene.begin(runtimes, work)
    await scene.answer("no")
    assert scene.ended == [["Oslo", "Rome no", "Bern"]]
    assert sorted(called) == ["Bern", "Oslo", "Rome", "Rome"]


@REAL
async def test_equal_questions_of_two_calls_keep_their_answers_whatever_their_order(
    runtimes: Runtimes,
) -> None:
    """As agents do that are called as tools: they know the handler's context, and not that of their call."""
    attempts: list[int] = []

    async def book(place: str) -> str:
        ctx = running_context()
        assert ctx is not None
        if (place == "Oslo") is (len(attempts) == 1):
            await asyncio.sleep(0.01)  # the other one is first
        return f"{place} {await ctx.ask('Sure?', details={'place': place})}"

    async def work(ctx: MessageContext, text: str) -> object:
        attempts.append(ctx.attempt)
        bench = StaticWorkbench([FunctionTool(book, "Books.")])
        calls = [
            FunctionCall(id=at, name="book", arguments=f'{{"place": "{at}"}}') for at in ("Rome", "Oslo")
        ]
        return [one.content for one in await run_tools(calls, bench, ctx)]

    scene = await Scene.begin(runtimes, work)
    for request in await scene.open(2):
        await scene.runtime.inputs.answer(request.id, request.details["place"].lower())
    await scene.over()
    assert scene.ended == [["Rome rome", "Oslo oslo"]]


@REAL
async def test_where_one_call_at_a_time_asks_the_next_one_does_not_begin(runtimes: Runtimes) -> None:
    started: list[str] = []

    async def book(place: str, ctx: MessageContext) -> str:
        return place if place == "Oslo" else await ctx.ask("Elsewhere?")

    async def on_event(event: ToolEvent) -> None:
        if event.kind == "started":
            started.append(event.call.id)

    async def work(ctx: MessageContext, text: str) -> object:
        started.append("attempt")
        calls = [
            FunctionCall(id=at, name="book", arguments=f'{{"place": "{at}"}}') for at in ("Rome", "Oslo")
        ]
        bench = StaticWorkbench([FunctionTool(book, "Books.")])
        told = await run_tools(calls, bench, ctx, concurrency=1, on_event=on_event)
        return [one.content for one in told]

    scene = await Scene.begin(runtimes, work)
    await scene.answer("no")
    assert scene.ended == [["no", "Oslo"]]
    assert started == ["attempt", "Rome", "attempt", "Rome", "Oslo"]


@REAL
async def test_a_question_expires_with_its_default_or_with_an_error(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        given = await ctx.ask("How many?", answer_type=int, timeout=0.05, default=3)
        try:
            await ctx.ask("Really?", timeout=0.05)
        except InputExpiredError as error:
            return given, error.input_id
        return None

    scene = await Scene.begin(runtimes, work)
    await scene.over()
    ((given, expired),) = scene.ended
    assert given == 3
    with pytest.raises(InputExpiredError):
        await scene.runtime.inputs.answer(expired, "yes")


@REAL
async def test_an_answer_is_checked_before_it_is_sent(runtimes: Runtimes) -> None:
    class Choice(BaseModel):
        colour: str
        count: int = 1

    async def work(ctx: MessageContext, text: str) -> object:
        choice = await ctx.ask("Which?", name="which", answer_type=Choice, details={"have": ["red"]})
        return choice, await ctx.ask("Sure?", choices=("yes", "no"), to=("ada", "bob"))

    scene = await Scene.begin(runtimes, work)
    (request,) = await scene.open()
    assert (request.name, request.details, request.expected) == ("which", {"have": ["red"]}, "Choice")
    for wrong in ("red", {"count": 1}, {"colour": "red", "count": "many"}, object()):
        with pytest.raises(InputValueError):
            await scene.runtime.inputs.answer(request.id, wrong)
    await scene.runtime.inputs.answer(request.id, Choice(colour="red"))
    (request,) = await scene.open()
    with pytest.raises(NotAllowedToAnswerError, match="put to ada, bob"):
        await scene.runtime.inputs.answer(request.id, "yes", by="eve")
    with pytest.raises(InputValueError, match="yes, no"):
        await scene.runtime.inputs.answer(request.id, "maybe", by="ada")
    await scene.answer("yes", by="bob")
    assert scene.ended == [(Choice(colour="red"), "yes")]


@REAL
async def test_a_record_that_was_changed_by_hand_hides_no_other(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        return await asyncio.gather(ctx.ask("Left?"), ctx.ask("Right?"), return_exceptions=True)

    scene = await Scene.begin(runtimes, work)
    left, right = await scene.open(2)
    transport = scene.runtime.transport
    key = transport.keys.of(f"input:{left.id}")
    await transport.admin.command("HSET", key, "asked", "yesterday", "details", "{", "expires", "soon")
    assert [one.id for one in await scene.runtime.inputs.list()] == [right.id]
    with pytest.raises(InputError, match="withdraw it"):
        await scene.runtime.inputs.answer(left.id, "l")
    with contextlib.suppress(InputExpiredError):  # what can't be read of when it expires is over
        await scene.runtime.inputs.withdraw(left.id)
    await scene.runtime.inputs.answer(right.id, "r")
    await scene.over()
    await scene.runtime.stop_when_idle()
    assert await stored(scene.runtime, "suspended:", "busy:", "inputs") == []


@REAL
async def test_a_question_that_is_withdrawn_is_an_error_for_who_asked(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        try:
            return await ctx.ask("Really?")
        except InputWithdrawnError:
            return "withdrawn"

    scene = await Scene.begin(runtimes, work)
    (request,) = await scene.open()
    await scene.runtime.inputs.withdraw(request.id)
    await scene.over()
    assert scene.ended == ["withdrawn"]
    with pytest.raises(InputWithdrawnError):
        await scene.runtime.inputs.answer(request.id, "yes")


async def test_another_process_goes_on_where_the_first_one_waited(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        return await ctx.ask("Really?")

    scene = await Scene.begin(runtimes, work)
    await scene.open()
    await scene.runtime.close()
    scene.runtime = await runtimes.started()
    await scene.register(scene.runtime)
    assert scene.ended == []
    await scene.answer("yes")
    assert scene.ended == ["yes"]


@REAL
async def test_a_cancelled_message_withdraws_its_question_and_later_ones_go_on(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        return await ctx.ask("Really?") if text == "first" else text

    scene = await Scene.begin(runtimes, work, "nothing")
    await scene.over()
    to = AgentId("worker", "a")
    await scene.runtime.tell(Note(text="first"), to, message_id="m1", cancellable=True)
    await scene.runtime.tell(Note(text="second"), to)
    (request,) = await scene.open()
    await scene.runtime.control.cancel("m1")
    await scene.over(2)
    assert scene.ended == ["nothing", "second"]
    assert (await scene.runtime.inputs.get(request.id)).status == "withdrawn"


@REAL
async def test_an_agent_that_is_paused_while_it_waits_goes_on_when_it_is_resumed(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        return await ctx.ask("Really?")

    scene = await Scene.begin(runtimes, work)
    (request,) = await scene.open()
    await scene.runtime.control.pause(AgentId("worker", "a"))
    await scene.runtime.inputs.answer(request.id, "yes")
    assert scene.ended == []
    await scene.runtime.control.resume(AgentId("worker", "a"))
    await scene.over()
    assert scene.ended == ["yes"]


class Clerk(RoutedAgent):
    """Asks a person when it is asked; and itself, where that is allowed."""

    reentrant = True
    errors: ClassVar[list[CannotAskError]] = []

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        if message.text == "inner":
            try:
                await ctx.ask("Inside?")
            except CannotAskError as error:
                self.errors.append(error)
        elif message.text == "outer":
            await self.send_message(Ask(text="inner"), self.id)
        else:
            return Answer(text=await ctx.ask("Really?"))
        return Answer(text="done")


@REAL
async def test_a_request_may_ask_and_a_request_inside_a_handler_that_waits_may_not(
    runtimes: Runtimes,
) -> None:
    runtime = await runtimes.started()
    await Clerk.register(runtime, "clerk", lambda: Clerk("asks"))
    clerk = AgentId("clerk", "c")
    scene = Scene(runtimes, runtime, in_a_group)
    asking = asyncio.ensure_future(runtime.send_message(Ask(), clerk))
    (request,) = await scene.open()
    await runtime.inputs.answer(request.id, "yes")
    assert (await asking).text == "yes"
    Clerk.errors.clear()
    assert (await runtime.send_message(Ask(text="outer"), clerk)).text == "done"
    assert ["is a request to an agent whose handler waits" in str(error) for error in Clerk.errors] == [True]


@REAL
async def test_a_request_whose_deadline_passes_while_it_waits_is_over(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await Clerk.register(runtime, "clerk", lambda: Clerk("asks"))
    with pytest.raises(RequestTimeoutError):
        await runtime.send_message(Ask(), AgentId("clerk", "c"), timeout=0.3)

    async def is_withdrawn() -> bool:
        names = await stored(runtime, "input:")
        return [(await runtime.inputs.get(name[6:])).status for name in names] == ["withdrawn"]

    await eventually(is_withdrawn)


class Shown:
    """What those who read the run `r1` see."""

    stream = "r1"

    def asked(self, input_id: str, question: Question) -> list[Note]:
        return [Note(text=f"{question.text} {input_id}")]

    async def waits(self, input_id: str, question: Question) -> None: ...

    async def ended(self, input_id: str) -> None: ...


@REAL
async def test_a_question_is_shown_to_those_who_read_the_run(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        if text == "in a run":
            noting.set(Shown())
        return await ctx.ask("Really?")

    scene = await Scene.begin(runtimes, work, "first")
    await scene.answer("no")
    with usage_run("r1"):
        await scene.runtime.tell(Note(text="in a run"), AgentId("worker", "a"))
    (request,) = await scene.open()
    assert [one.id for one in await scene.runtime.inputs.list(run="r1")] == [request.id]
    assert await scene.runtime.inputs.list(run="r2") == []
    assert await scene.runtime.inputs.list(agent="worker/b") == []
    await scene.answer("yes")
    await scene.over(2)
    told = [entry.event async for entry in scene.runtime.read_run("r1", live=False)]
    assert told == [Note(text=f"Really? {request.id}")]


async def test_outside_of_a_handler_nobody_can_ask() -> None:
    from callboard import CancellationToken

    ctx = MessageContext(None, None, False, CancellationToken(), "m")
    with pytest.raises(CannotAskError, match="ask in a handler"):
        await ctx.ask("Really?")


@REAL
async def test_a_question_that_makes_no_sense_is_a_dead_letter(runtimes: Runtimes) -> None:
    async def work(ctx: MessageContext, text: str) -> object:
        return await ctx.ask("Really?", choices=("yes", "no"), default="perhaps")

    scene = await Scene.begin(runtimes, work)
    await scene.over()
    await scene.runtime.stop_when_idle()
    (letter,) = await letters(scene.runtime, "worker")
    assert "none of its choices" in letter["error"]
