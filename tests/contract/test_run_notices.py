"""An agent that started a run hears what became of it, once, and polls nothing."""

from __future__ import annotations

from typing import Any

import pytest

from callboard import AgentId, CancellationToken, MessageContext, TopicId
from callboard.broker.redis.operations.inspect import overview
from callboard.errors import CannotAskError, SettingValueError
from callboard.runs import a_run
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RunNotice, TeamClient
from tests.helpers.eventually import eventually
from tests.helpers.notice_desk import Job, app, asking, failing, plain
from tests.helpers.run_agents import chatterer
from tests.helpers.runtimes import Note, Runtimes

ME = AgentId("clerk", "ada")


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.of(app)
    made.start()
    await made.ready()
    return made


async def heard(runtime: RedisAgentRuntime, count: int = 1, agent: AgentId = ME) -> list[RunNotice]:
    """So many notices, and no more."""

    async def notices() -> list[RunNotice]:
        state = await runtime.agent_save_state(agent)
        return [RunNotice.model_validate(one) for one in state.get("heard", [])]

    async def enough() -> bool:
        return len(await notices()) >= count

    await eventually(enough)
    await runtime.stop_when_idle()
    runtime.start()
    found = await notices()
    assert len(found) == count
    return found


async def test_a_handler_that_began_a_run_hears_that_it_was_completed(runtime: RedisAgentRuntime) -> None:
    await runtime.publish_message(Note(), TopicId("work", "ada"), message_id="n1")
    (notice,) = await heard(runtime)
    assert notice.at > 0
    assert notice.model_copy(update={"at": 0.0}) == RunNotice(
        team="plain",
        conversation="n1",
        run_id="n1",
        state="completed",
        stop_reason="Maximum number of turns 2 reached.",
        text="bob speaks",
    )


async def test_that_it_failed(runtime: RedisAgentRuntime) -> None:
    await failing.on(runtime, "c").start(task="Go", run_id="r", on_end=ME)
    (notice,) = await heard(runtime)
    assert (notice.state, notice.error_type) == ("failed", "ValueError")
    assert notice.problem.startswith("no such refund")


async def test_that_it_was_cancelled_also_while_it_waited(runtime: RedisAgentRuntime) -> None:
    client = asking.on(runtime, "c")
    await client.start(task="Go", run_id="r1", on_end=ME)
    (asks,) = await heard(runtime)
    await client.start(task="Go", run_id="r2", if_busy="enqueue", on_end=ME)
    await client.abort("r2")
    await client.abort("r1")
    notices = await heard(runtime, 3)
    assert [(one.run_id, one.state) for one in notices] == [
        ("r1", "input_required"),
        ("r2", "cancelled"),
        ("r1", "cancelled"),
    ]
    assert (asks.text, asks.team, asks.conversation) == ("May I?", "asking", "c")


@pytest.mark.parametrize("name", ["asking", "outer"])
async def test_that_it_asks_a_person_and_which_question_it_is(runtime: RedisAgentRuntime, name: str) -> None:
    client = TeamClient(runtime, name, "c")
    await client.start(task="Go", run_id="r", on_end=TopicId("ended", "ada"))
    (asks,) = await heard(runtime, agent=AgentId("hall", "ada"))
    assert (asks.state, asks.team, asks.conversation, asks.run_id) == ("input_required", name, "c", "r")
    await runtime.inputs.answer(asks.input_id, "You may")
    ended = (await heard(runtime, 2, AgentId("hall", "ada")))[1]
    assert (ended.state, ended.team, ended.run_id) == ("completed", name, "r")


async def test_the_same_of_run(runtime: RedisAgentRuntime) -> None:
    response = await a_run(
        *(chatterer("a"), chatterer("b")), message="Hi", max_turns=2, runtime=runtime, run_id="r", on_end=ME
    )
    await response.result()
    (notice,) = await heard(runtime)
    assert (notice.run_id, notice.state, notice.text) == ("r", "completed", "b speaks")


async def test_something_else_hears_nothing(runtime: RedisAgentRuntime) -> None:
    nobody: Any = "clerk/ada"
    with pytest.raises(SettingValueError, match="AgentId or a TopicId"):
        await plain.on(runtime, "c").start(task="Go", on_end=nobody)
    with pytest.raises(ValueError, match="'on_end' is for runs on the bus"):
        await a_run(chatterer("a"), message="Hi", on_end=ME)


TABLE = AgentId("waiter", "ada")


async def said(runtime: RedisAgentRuntime) -> list[str]:
    """How the runs ended that the waiter has waited for."""
    texts: list[str] = (await runtime.agent_save_state(TABLE)).get("said", [])
    return texts


async def ended_for(runtime: RedisAgentRuntime, *teams: str, tokens: int | None = None) -> str:
    """What a handler says that waits for these teams."""
    job = Job(teams=list(teams), tokens=tokens)
    await runtime.publish_message(job, TopicId("tables", "ada"), message_id="j")

    async def has_said() -> list[str]:
        return await said(runtime)

    await eventually(has_said)
    return (await said(runtime))[0]


async def test_a_handler_waits_for_a_run_without_a_process(runtime: RedisAgentRuntime) -> None:
    assert await ended_for(runtime, "plain") == "1 bob speaks"


async def test_a_handler_waits_for_two_runs_at_once(runtime: RedisAgentRuntime) -> None:
    assert await ended_for(runtime, "plain", "second") == "1 bob speaks cyd speaks"


async def test_a_run_that_failed_is_an_error_of_the_handler_that_waits(runtime: RedisAgentRuntime) -> None:
    assert await ended_for(runtime, "failing") == "TeamRunError"


async def test_while_the_run_asks_a_person_the_handler_holds_nothing(runtime: RedisAgentRuntime) -> None:
    await runtime.publish_message(Job(teams=["asking"]), TopicId("tables", "ada"), message_id="j")

    async def both_wait() -> bool:
        totals = (await overview(runtime.transport)).totals
        return (totals.suspended, totals.running, totals.waiting) == (2, 0, 0)

    await eventually(both_wait)
    (question,) = await runtime.inputs.list()  # that of the person
    assert question.question == "May I?"
    await runtime.inputs.answer(question.id, "You may")

    async def has_said() -> bool:
        return await said(runtime) == ["1 ann speaks"]

    await eventually(has_said)
    await runtime.stop_when_idle()
    assert (await overview(runtime.transport)).totals.suspended == 0


async def test_a_run_that_is_cancelled_is_another_error(runtime: RedisAgentRuntime) -> None:
    await runtime.publish_message(Job(teams=["asking"]), TopicId("tables", "ada"), message_id="j")

    async def asks() -> bool:
        return len(await runtime.inputs.list()) == 1

    await eventually(asks)
    await asking.on(runtime, "j-asking").abort()

    async def has_said() -> bool:
        return await said(runtime) == ["RunCancelledError"]

    await eventually(has_said)


async def test_a_run_that_can_not_begin_does_not_leave_its_handler_waiting(
    runtime: RedisAgentRuntime,
) -> None:
    assert await ended_for(runtime, "limited", tokens=9) == "TeamRunError"


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_handler_waits_for_a_run_that_another_has_begun(
    runtime: RedisAgentRuntime, is_over: bool
) -> None:
    client = (plain if is_over else asking).on(runtime, f"j-{'plain' if is_over else 'asking'}")
    await client.start(task="Go", run_id="r")
    if is_over:
        async for _ in client.follow("r"):
            pass
        job = Job(teams=["plain"], run_id="r")
    else:
        job = Job(teams=["asking"], run_id="r")
    await runtime.publish_message(job, TopicId("tables", "ada"), message_id="j")
    if not is_over:

        async def asks() -> bool:
            return len(await runtime.inputs.list()) == 1

        await eventually(asks)
        (question,) = await runtime.inputs.list()
        await runtime.inputs.answer(question.id, "You may")

    async def has_said() -> bool:
        return len(await said(runtime)) == 1

    await eventually(has_said)


async def test_the_id_of_a_conversation_may_be_long(runtime: RedisAgentRuntime) -> None:
    await runtime.publish_message(Job(teams=["plain"]), TopicId("tables", "ada"), message_id="j" * 1000)

    async def has_said() -> bool:
        return await said(runtime) == ["1 bob speaks"]

    await eventually(has_said)


async def test_who_waits_outside_of_a_handler_is_told_so(runtime: RedisAgentRuntime) -> None:
    context = MessageContext(
        sender=None, topic_id=None, is_rpc=False, cancellation_token=CancellationToken(), message_id="m"
    )
    with pytest.raises(CannotAskError):
        await plain.on(runtime, "c").run_within(context, task="Go")
