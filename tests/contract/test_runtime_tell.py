"""A message to one agent that nobody waits for: it comes once, in order, and leaves with the commit of its handler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard import AgentId, ClosureContext, DefaultInterventionHandler, MessageContext, TopicId, event
from callboard.errors import SettingValueError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Ask, Heard, Listener, Note, Runtimes, closure, letters, listener, stored

CLERK = AgentId("clerk", "a")
TOLD = Heard("clerk/a", "hello", None, "boss/a")


class Boss(Listener):
    """Tells somebody something, with the options that it is made with."""

    def __init__(self, heard: list[Heard], to: str, failures: int = 0, **options: Any) -> None:
        super().__init__(heard)
        self.to = to
        self.failures = failures
        self.options = options

    @event
    async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
        await self.tell(Note(text=message.text), self.to, **self.options)
        if ctx.attempt <= self.failures:
            raise LookupError("not yet")


async def _told(
    runtimes: Runtimes, *, to: str = "clerk/a", failures: int = 0, count: int = 1, **options: Any
) -> list[Heard]:
    """What is heard when a boss is asked, as often as that, to tell somebody something."""
    runtime = await runtimes.started()
    heard = await listener(runtime, "clerk")
    await Boss.register(runtime, "boss", lambda: Boss(heard, to, failures, **options))
    for _ in range(count):
        await runtime.publish_message(Ask(text="hello"), TopicId("boss:start", "a"))
    await eventually(lambda: heard)
    await runtime.stop_when_idle()
    return heard


@pytest.mark.parametrize(
    "options", [{}, {"after": 0.05}, {"now": True}, {"claim_check": True}, {"expires_in": 60.0}], ids=str
)
async def test_it_comes_to_one_agent(runtimes: Runtimes, options: dict[str, Any]) -> None:
    assert await _told(runtimes, **options) == [TOLD]


async def test_an_agent_may_tell_itself(runtimes: Runtimes) -> None:
    assert await _told(runtimes, to="boss/a") == [TOLD._replace(agent="boss/a")]


@pytest.mark.parametrize("now", [False, True])
async def test_attempts_that_fail_tell_it_once(runtimes: Runtimes, now: bool) -> None:
    assert await _told(runtimes, failures=2, now=now) == [TOLD]


async def test_an_id_of_its_own_makes_it_idempotent(runtimes: Runtimes) -> None:
    assert await _told(runtimes, count=3, message_id="today") == [TOLD]


async def test_a_handler_that_fails_for_good_tells_nothing(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "clerk")
    await Boss.register(runtime, "boss", lambda: Boss(heard, "clerk/a", failures=9))
    await runtime.publish_message(Ask(text="hello"), TopicId("boss:start", "a"))
    await eventually(lambda: runtime.failed)
    await runtime.stop_when_idle()
    assert heard == []


async def test_it_leaves_with_the_commit_unless_it_is_told_now(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "clerk")
    gate = asyncio.Event()

    async def tell(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await agent.tell(Note(text="with the commit"), CLERK)
        await agent.tell(Note(text="now"), CLERK, now=True)
        await gate.wait()

    await closure(runtime, "telling", tell, "news")
    await runtime.publish_message(Note(), TopicId("news", "a"))
    await eventually(lambda: heard)
    assert [one.text for one in heard] == ["now"]
    gate.set()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["now", "with the commit"]


async def test_what_one_agent_gets_keeps_its_order_over_inbox_and_topics(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "clerk", "news")
    texts = [str(number) for number in range(60)]
    for number, text in enumerate(texts):
        if number % 3:
            await runtime.tell(Note(text=text), CLERK)
        else:
            await runtime.publish_message(Note(text=text), TopicId("news", "a"))
    runtime.start()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == texts


@pytest.mark.parametrize("sender", [None, AgentId("boss", "b")])
async def test_a_program_tells_an_agent(runtimes: Runtimes, sender: AgentId | None) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "clerk")
    await runtime.tell(Note(text="hello"), "clerk/a", sender=sender)
    await runtime.stop_when_idle()
    assert heard == [Heard("clerk/a", "hello", None, str(sender) if sender else None)]


async def test_a_type_in_another_process(runtimes: Runtimes) -> None:
    other = await runtimes.started()
    heard = await listener(other, "clerk")
    runtime = await runtimes.started(types=["boss"])
    await Boss.register(runtime, "boss", lambda: Boss([], "clerk/a"))
    for _ in range(2):
        await runtime.publish_message(Ask(text="hello"), TopicId("boss:start", "a"))
    await eventually(lambda: len(heard) == 2)
    assert heard == [TOLD, TOLD]


@pytest.mark.parametrize("now", [False, True])
async def test_an_agent_type_that_does_not_exist(runtimes: Runtimes, now: bool) -> None:
    told: list[str] = []

    async def tell(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        with pytest.raises(LookupError) as error:
            await agent.tell(Note(), "nobody/a", now=now)
        told.append(str(error.value))

    runtime = await runtimes.started()
    await closure(runtime, "telling", tell, "news")
    await runtime.publish_message(Note(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    with pytest.raises(LookupError, match="nobody"):
        await runtime.tell(Note(), "nobody/a")
    assert len(told) == 1
    assert "nobody" in told[0]
    assert await stored(runtime, "inbox:nobody") == []


async def test_one_that_fails_for_good_is_a_dead_letter_of_its_recipient(runtimes: Runtimes) -> None:
    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        raise LookupError("no")

    runtime = await runtimes.started()
    await closure(runtime, "clerk", fail)
    await runtime.tell(Note(), CLERK, sender=AgentId("boss", "a"))
    await eventually(lambda: runtime.failed)
    await runtime.stop_when_idle()
    (letter,) = await letters(runtime, "clerk")
    assert (letter["key"], letter["from"], letter["stream"]) == ("a", "boss/a", "inbox:clerk")


async def test_interceptors_see_it_as_a_message_to_one_agent(runtimes: Runtimes) -> None:
    seen: list[tuple[str, str, str, bool]] = []

    class Watch(DefaultInterventionHandler):
        """Writes down what is sent."""

        async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
            seen.append((message.text, str(message_context.sender), str(recipient), message_context.is_rpc))
            return Note(text="changed")

    runtime = await runtimes.started(intervention_handlers=[Watch()])
    heard = await listener(runtime, "clerk")
    await runtime.tell(Note(text="hello"), CLERK, sender=AgentId("boss", "a"))
    await runtime.stop_when_idle()
    assert seen == [("hello", "boss/a", "clerk/a", False)]
    assert heard == [TOLD._replace(text="changed")]


@pytest.mark.parametrize("wrong", [{"after": -1}, {"at": "noon"}, {"expires_in": 0}], ids=str)
async def test_a_time_that_can_not_be(runtimes: Runtimes, wrong: dict[str, Any]) -> None:
    runtime = runtimes.new()
    await runtime.open()
    with pytest.raises(SettingValueError):
        await runtime.tell(Note(), CLERK, **wrong)


@pytest.mark.parametrize("recipient", ["clerk", 5, TopicId("a", "b")])
async def test_what_is_no_agent(runtimes: Runtimes, recipient: Any) -> None:
    runtime = runtimes.new()
    with pytest.raises(ValueError, match="recipient"):
        await runtime.tell(Note(), recipient)
