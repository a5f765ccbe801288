"""What an agent sends to itself: it comes, once, when it is due, although an agent does not hear what it publishes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callboard import AgentId, ClosureContext, DefaultInterventionHandler, MessageContext, TopicId, event
from callboard.broker.redis.operations.deadletters import replay
from callboard.errors import SettingValueError
from callboard.runtime.errors import DeadlockError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Ask, Heard, Listener, Note, Runtimes, closure, listener

ITSELF = Heard("clock/a", "later", None, "clock/a")


class Clock(Listener):
    """Reminds itself of something, with the options that it is made with."""

    def __init__(self, heard: list[Heard], failures: int = 0, **options: Any) -> None:
        super().__init__(heard)
        self.failures = failures
        self.options = options

    @event
    async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
        await self.remind(Note(text=message.text), **self.options)
        if ctx.attempt <= self.failures:
            raise LookupError("not yet")


async def _remembered(
    runtimes: Runtimes, text: str = "later", failures: int = 0, **options: Any
) -> list[Heard]:
    """What a clock hears that is asked once."""
    heard: list[Heard] = []
    runtime = await runtimes.started()
    await Clock.register(runtime, "clock", lambda: Clock(heard, failures, **options))
    await runtime.publish_message(Ask(text=text), TopicId("clock:start", "a"))
    await eventually(lambda: heard)
    await runtime.stop_when_idle()
    return heard


@pytest.mark.parametrize("options", [{}, {"after": 0.05}, {"after": 0}, {"claim_check": True}], ids=str)
async def test_it_comes_to_the_agent_itself(runtimes: Runtimes, options: dict[str, Any]) -> None:
    assert await _remembered(runtimes, **options) == [ITSELF]


async def test_it_comes_at_a_time(runtimes: Runtimes) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=50)
    assert await _remembered(runtimes, at=soon) == [ITSELF]


async def test_a_failed_attempt_sends_nothing_and_the_next_one_sends_it_once(runtimes: Runtimes) -> None:
    assert await _remembered(runtimes, failures=2, after=0.05) == [ITSELF]


async def test_what_is_due_later_waits_in_the_server(runtimes: Runtimes) -> None:
    heard: list[Heard] = []
    first = await runtimes.started()
    await Clock.register(first, "clock", lambda: Clock(heard, after=0.5))
    await first.publish_message(Ask(text="later"), TopicId("clock:start", "a"))
    await eventually(lambda: first.handled == 1)
    await first.close()
    second = await runtimes.started()
    await Clock.register(second, "clock", lambda: Clock(heard))
    assert heard == []
    await eventually(lambda: heard)
    assert heard == [ITSELF]


async def test_what_it_publishes_it_still_does_not_hear(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "clock", "news")
    await runtime.publish_message(Note(), TopicId("news", "a"), sender=AgentId("clock", "a"))
    await runtime.stop_when_idle()
    assert heard == []


async def test_a_closure_reminds_itself(runtimes: Runtimes) -> None:
    heard: list[str] = []

    async def count(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        heard.append(message.text)
        if len(message.text) < 3:
            await agent.remind(Note(text=message.text + "x"), after=0.01)

    runtime = await runtimes.started()
    await closure(runtime, "counter", count, "news")
    await runtime.publish_message(Note(text="x"), TopicId("news", "a"))
    await eventually(lambda: heard == ["x", "xx", "xxx"])


async def test_a_program_reminds_an_agent_once_for_each_id(runtimes: Runtimes) -> None:
    heard: list[Heard] = []
    runtime = await runtimes.started()
    await Clock.register(runtime, "clock", lambda: Clock(heard))
    for _ in range(2):
        await runtime.remind(Note(text="later"), AgentId("clock", "a"), message_id="today", after=0.01)
    await eventually(lambda: heard)
    await runtime.stop_when_idle()
    assert heard == [ITSELF]
    with pytest.raises(LookupError, match="nobody"):
        await runtime.remind(Note(), AgentId("nobody", "a"))


async def test_a_dead_reminder_is_replayed(runtimes: Runtimes) -> None:
    heard: list[Heard] = []

    class Broken(Clock):
        """Fails with reminders, until it is repaired."""

        repaired = False

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            if not self.repaired:
                raise LookupError("no")
            await super().on_note(message, ctx)

    runtime = await runtimes.started()
    await Broken.register(runtime, "clock", lambda: Broken(heard))
    await runtime.publish_message(Ask(text="later"), TopicId("clock:start", "a"))
    await eventually(lambda: runtime.failed == 1)
    Broken.repaired = True
    await replay(runtime.transport, "clock")
    await runtime.stop_when_idle()
    assert heard == [ITSELF]


async def test_interceptors_see_it_as_a_message_to_one_agent(runtimes: Runtimes) -> None:
    seen: list[tuple[str, str, bool]] = []

    class Watch(DefaultInterventionHandler):
        """Writes down what is sent."""

        async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
            seen.append((message.text, str(recipient), message_context.is_rpc))
            return Note(text="changed")

    heard: list[Heard] = []
    runtime = await runtimes.started(intervention_handlers=[Watch()])
    await Clock.register(runtime, "clock", lambda: Clock(heard))
    await runtime.publish_message(Ask(text="later"), TopicId("clock:start", "a"))
    await runtime.stop_when_idle()
    assert seen == [("later", "clock/a", False)]
    assert heard == [ITSELF._replace(text="changed")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": -1},
        {"after": "1 h"},
        {"at": 0.0},
        {"at": "noon"},
        {"at": datetime(2027, 1, 1)},
        {"expires_in": 0},
    ],
    ids=str,
)
async def test_a_time_that_can_not_be(runtimes: Runtimes, wrong: dict[str, Any]) -> None:
    runtime = runtimes.new()
    await runtime.open()
    with pytest.raises(SettingValueError):
        await runtime.remind(Note(), AgentId("clock", "a"), **wrong)


async def test_who_asks_itself_or_for_later_is_told_of_it(runtimes: Runtimes) -> None:
    told: list[str] = []

    async def ask(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        wrong: dict[str, Any] = {"delay": 5}
        with pytest.raises(DeadlockError) as itself:
            await agent.send_message(Ask(), agent.id)
        with pytest.raises(TypeError) as later:
            await agent.send_message(Ask(), AgentId("other", "a"), **wrong)
        told.extend((str(itself.value), str(later.value)))

    runtime = await runtimes.started()
    await closure(runtime, "asking", ask, "news")
    await runtime.publish_message(Note(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert [text.count("remind") for text in told] == [1, 1]
