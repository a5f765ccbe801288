"""The agents of one process: made once, kept, brought to their state, put to sleep, closed."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

import pytest
from pydantic import BaseModel

from callboard import AgentId, AgentInstantiationContext, BaseAgent, MessageContext
from callboard.broker.envelope import Delivery, Envelope
from callboard.broker.mailbox import Mailbox
from callboard.broker.redis.client.states import StoredState
from callboard.broker.retry import RetryPolicy
from callboard.core.declaration import AgentSettings
from callboard.core.protocol import AgentRuntime
from callboard.errors import DeclarationError, DuplicateAgentTypeError, MisuseError, UnknownNameError
from callboard.runtime.agents import UNKNOWN, LocalAgents
from tests.helpers.eventually import eventually
from tests.unit.recording import RecordingRuntime

A, B = AgentId("worker", "a"), AgentId("worker", "b")


class Worker(BaseAgent):
    """Persistent."""

    class State(BaseModel):
        """A number."""

        number: int = 0

    closed: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__("works")

    async def on_message_impl(self, message: object, ctx: MessageContext) -> None: ...

    async def close(self) -> None:
        self.closed.append(self.id.key)
        if self.id.key == "stubborn":
            raise OSError("no")


class Plain(BaseAgent):
    """Keeps nothing."""

    def __init__(self) -> None:
        super().__init__("plain")

    async def on_message_impl(self, message: object, ctx: MessageContext) -> None: ...


@pytest.fixture
def agents() -> LocalAgents:
    Worker.closed = []
    made = LocalAgents(RecordingRuntime())
    made.add_type("worker", Worker, Worker, AgentSettings(max_attempts=7))
    made.add_type("plain", Plain, Plain, AgentSettings())
    return made


def _delivery() -> Delivery:
    return Delivery(b"worker", b"topic:x", b"1-0", b"", b"a", Envelope("m", "Note", "a", None, 1, b"{}"))


def test_types(agents: LocalAgents) -> None:
    assert "worker" in agents
    assert "nobody" not in agents
    assert [entry.type for entry in agents] == ["worker", "plain"]
    assert agents.settings_of_types(RetryPolicy(3)) == {
        "worker": {"max_attempts": 7},
        "plain": {"max_attempts": 3},
    }
    with pytest.raises(DuplicateAgentTypeError):
        agents.add_type("worker", Worker, Worker, AgentSettings())
    with pytest.raises(UnknownNameError, match="Did you mean 'worker'"):
        agents.kind("workers")


async def test_an_agent_is_made_once_and_knows_who_it_is(agents: LocalAgents) -> None:
    entry = agents.kind("worker")
    live = await agents.get(entry, A)
    assert await agents.get(entry, A) is live
    assert await agents.get(entry, B) is not live
    assert live.agent.metadata["key"] == "a"
    assert not AgentInstantiationContext.is_in_factory_call()


async def test_who_asks_while_it_is_made_waits_for_the_same_one(agents: LocalAgents) -> None:
    go_on = asyncio.Event()

    async def factory() -> Worker:
        await go_on.wait()
        return Worker()

    entry = agents.kind("worker")
    entry.factory = factory
    asking = [asyncio.create_task(agents.get(entry, A)) for _ in range(3)]
    await eventually(lambda: entry.making)
    go_on.set()
    first, *others = await asyncio.gather(*asking)
    assert all(other is first for other in others)
    assert entry.making == {}


async def test_a_factory_that_fails_fails_for_all_who_asked_and_is_asked_again(agents: LocalAgents) -> None:
    is_down = True

    async def factory() -> Worker:
        await asyncio.sleep(0)
        if is_down:
            raise ConnectionError("down")
        return Worker()

    entry = agents.kind("worker")
    entry.factory = factory
    results = await asyncio.gather(*(agents.get(entry, A) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionError] * 3
    is_down = False
    assert (await agents.get(entry, A)).agent_id == A


async def test_a_maker_that_is_cancelled_leaves_nobody_waiting(agents: LocalAgents) -> None:
    async def factory() -> Worker:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    entry = agents.kind("worker")
    entry.factory = factory
    first = asyncio.create_task(agents.get(entry, A))
    await eventually(lambda: entry.making)
    second = asyncio.create_task(agents.get(entry, A))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(MisuseError):
        await second
    entry.factory = Worker
    await agents.get(entry, A)


async def test_a_factory_that_gives_one_agent_twice_is_found_out(agents: LocalAgents) -> None:
    kind = agents.kind("plain")
    await agents.get(kind, AgentId("plain", "first"))
    shared: list[Plain] = []

    def factory() -> Plain:
        shared.extend([] if shared else [Plain()])
        return shared[0]

    kind.factory = factory
    live = await agents.get(kind, AgentId("plain", "a"))
    assert live.agent is shared[0]
    with pytest.raises(RuntimeError, match="different ID"):
        await agents.get(kind, AgentId("plain", "b"))
    assert list(kind.live) == ["first", "a"]
    assert kind.making == {}


async def test_agents_that_do_not_take_over_who_they_are_are_told(agents: LocalAgents) -> None:
    class Silent(Plain):
        """Asks nobody who it is."""

        def __init__(self) -> None:
            pass

    class Own(Plain):
        """Has a way of its own to be bound."""

        bound: ClassVar[list[str]] = []

        async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None:
            self.bound.append(id.key)
            await super().bind_id_and_runtime(id, runtime)

    for made in (Silent, Own):
        name = made.__name__
        agents.add_type(name, made, made, AgentSettings())
        for key in ("a", "b", "c"):
            live = await agents.get(agents.kind(name), AgentId(name, key))
            assert live.agent.id == AgentId(name, key)
    assert Own.bound == ["a", "b", "c"]


async def test_a_factory_may_begin_to_wait_and_to_fail(agents: LocalAgents) -> None:
    kind = agents.kind("plain")
    first = await agents.get(kind, AgentId("plain", "first"))

    async def slow() -> Plain:
        await asyncio.sleep(0)
        return Plain()

    def broken() -> Plain:
        raise LookupError("no")

    kind.factory = slow
    second, same = await asyncio.gather(*(agents.get(kind, AgentId("plain", "second")) for _ in range(2)))
    assert second is same is not first
    kind.factory = broken
    with pytest.raises(LookupError) as caught:
        await agents.get(kind, AgentId("plain", "third"))
    assert caught.value.__notes__ == ["raised by the factory of 'plain', which was making plain/third"]
    assert not AgentInstantiationContext.is_in_factory_call()
    assert kind.making == {}
    assert sorted(kind.live) == ["first", "second"]


async def test_instances(agents: LocalAgents) -> None:
    ids = AgentId("desk", "one"), AgentId("desk", "two")
    assert await agents.add_instance(Plain(), ids[0])
    assert not await agents.add_instance(Plain(), ids[1])
    for agent, agent_id in ((Plain(), ids[0]), (Worker(), AgentId("desk", "three"))):
        with pytest.raises(DeclarationError):
            await agents.add_instance(agent, agent_id)
    with pytest.raises(DuplicateAgentTypeError):
        await agents.add_instance(Worker(), A)


async def test_an_instance_that_can_not_be_bound_leaves_no_type(agents: LocalAgents) -> None:
    agent = Plain()
    await agents.add_instance(agent, AgentId("desk", "one"))
    with pytest.raises(RuntimeError):
        await agents.add_instance(agent, AgentId("other", "one"))
    assert "other" not in agents


# States


async def test_an_agent_is_brought_to_the_committed_state_and_back(agents: LocalAgents) -> None:
    live = await agents.get(agents.kind("worker"), A)
    agents.bring_to(live, StoredState(3, b'{"number":5}'))
    assert (live.agent.state.number, live.version) == (5, 3)  # type: ignore[attr-defined]
    live.agent.state.number = 9  # type: ignore[attr-defined]
    agents.roll_back(live)
    assert live.agent.state.number == 5  # type: ignore[attr-defined]
    agents.bring_to(live, StoredState())
    assert live.agent.state.number == 0  # type: ignore[attr-defined]
    assert live.saved == b'{"number":0}'


async def test_the_state_of_an_agent_that_works_is_its_own(agents: LocalAgents) -> None:
    loads = 0

    async def load(agent_type: str, key: str) -> StoredState:
        nonlocal loads
        loads += 1
        return StoredState(2, b'{"number":2}')

    live = await agents.current(A, load)
    assert live.agent.state.number == 2  # type: ignore[attr-defined]
    live.version = 3
    live.agent.state.number = 3  # type: ignore[attr-defined]
    mailbox = live.mailbox = Mailbox((b"worker", b"a"))
    for busy in ("queue", "unsent"):
        mailbox.queue.clear()
        if busy == "queue":
            mailbox.queue.append(_delivery())
        else:
            mailbox.unsent = 1
        await agents.current(A, load)
    assert loads == 1
    mailbox.unsent = 0
    await agents.current(A, load)
    assert (loads, live.agent.state.number) == (2, 3), "its commit may be on its way"  # type: ignore[attr-defined]
    live.version = 1
    await agents.current(A, load)
    assert live.agent.state.number == 2, "another process went on"  # type: ignore[attr-defined]


async def test_one_that_begins_to_work_while_its_state_is_loaded(agents: LocalAgents) -> None:
    live = await agents.get(agents.kind("worker"), A)

    async def load(agent_type: str, key: str) -> StoredState:
        live.mailbox = Mailbox((b"worker", b"a"))
        live.mailbox.queue.append(_delivery())
        live.agent.state.number = 4  # type: ignore[attr-defined]
        return StoredState(9, b'{"number":9}')

    await agents.current(A, load)
    assert live.agent.state.number == 4  # type: ignore[attr-defined]


async def test_agents_without_a_state_are_not_loaded(agents: LocalAgents) -> None:
    async def load(agent_type: str, key: str) -> StoredState:
        raise AssertionError("not asked")

    await agents.current(AgentId("plain", "a"), load)


# Sleep and end


def _is_busy(agent_type: str, key: str) -> bool:
    return key == "busy"


async def test_who_was_not_used_goes_to_sleep(agents: LocalAgents, caplog: pytest.LogCaptureFixture) -> None:
    for key, used in (("old", 1.0), ("stubborn", 1.0), ("busy", 1.0), ("new", 3.0)):
        live = await agents.get(agents.kind("worker"), AgentId("worker", key))
        live.used = used
    await agents.get(agents.kind("plain"), AgentId("plain", "old"))
    await agents.add_instance(Worker(), AgentId("desk", "old"))
    with caplog.at_level(logging.ERROR, "callboard.actors"):
        await agents.passivate(2.0, is_held=_is_busy)
    assert sorted(Worker.closed) == ["old", "stubborn"]
    assert sorted(agents.kind("worker").live) == ["busy", "new"]
    assert list(agents.kind("plain").live) == ["old"], "its memory would be gone"
    assert list(agents.kind("desk").live) == ["old"], "it could not be made again"
    assert "worker/stubborn could not be closed" in caplog.text


async def test_of_agents_without_state_some_stay_awake(agents: LocalAgents) -> None:
    plain = agents.kind("plain")
    for key, used in (("c", 1.2), ("a", 1.0), ("busy", 0.5), ("b", 1.1), ("new", 3.0)):
        live = await agents.get(plain, AgentId("plain", key))
        live.used = used
    await agents.passivate(2.0, 1, _is_busy)
    assert sorted(plain.live) == ["busy", "c", "new"]


@pytest.mark.parametrize("asleep", [7, 4])
async def test_messages_get_their_turn_while_agents_fall_asleep(
    agents: LocalAgents, monkeypatch: pytest.MonkeyPatch, asleep: int
) -> None:
    monkeypatch.setattr("callboard.runtime.agents.PORTION", 2)
    plain = agents.kind("plain")
    for number in range(7):
        (await agents.get(plain, AgentId("plain", str(number)))).used = (number * 3) % 7
    passivating = asyncio.create_task(agents.passivate(9.0, 7 - asleep))
    seen: list[int] = []
    while not passivating.done():
        seen.append(len(plain.live))
        await asyncio.sleep(0)
    await passivating
    assert {7, 5, 3} <= {*seen, 7 - asleep}, "two at a time"
    left = [number for number in range(7) if str(number) in plain.live]
    assert sorted(number * 3 % 7 for number in left) == list(range(asleep, 7)), "those that were used last"


class Lasting(Worker):
    """Knows more than its state."""

    lasting = True


async def test_agents_that_last_are_never_made_again(agents: LocalAgents) -> None:
    agents.add_type("lasting", Lasting, Lasting, AgentSettings())
    kind = agents.kind("lasting")
    live = await agents.get(kind, AgentId("lasting", "a"))
    live.mailbox = Mailbox((b"lasting", b"a"))
    await agents.passivate(live.used + 1.0)
    agents.forget_persistent()
    assert kind.live == {"a": live}
    (kept,) = kind.live.values()
    assert kept.mailbox is None
    assert kept.version == UNKNOWN, "what others have stored is loaded into it"


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_agents_that_are_dropped_while_another_falls_asleep(
    agents: LocalAgents, is_made_again: bool
) -> None:
    kind = agents.kind("worker")
    falls_asleep, may_go_on = asyncio.Event(), asyncio.Event()

    async def close_slowly() -> None:
        falls_asleep.set()
        await may_go_on.wait()

    first = await agents.get(kind, A)
    first.agent.close = close_slowly  # type: ignore[method-assign]
    await agents.get(kind, B)
    passivating = asyncio.create_task(agents.passivate(before=1.0))
    await falls_asleep.wait()
    agents.forget_persistent()
    made_again = {B.key: await agents.get(kind, B)} if is_made_again else {}
    may_go_on.set()
    await passivating
    assert kind.live == made_again


async def test_an_agent_that_gets_a_message_while_another_falls_asleep(agents: LocalAgents) -> None:
    kind = agents.kind("worker")
    falls_asleep, may_go_on = asyncio.Event(), asyncio.Event()
    held: set[str] = set()

    async def close_slowly() -> None:
        falls_asleep.set()
        await may_go_on.wait()

    first, second = await agents.get(kind, A), await agents.get(kind, B)
    second.used = 0.5
    first.agent.close = close_slowly  # type: ignore[method-assign]
    passivating = asyncio.create_task(agents.passivate(1.0, is_held=lambda agent_type, key: key in held))
    await falls_asleep.wait()
    held.add(B.key)
    may_go_on.set()
    await passivating
    assert kind.live == {B.key: second}


async def test_all_are_closed_although_some_can_not_be(agents: LocalAgents) -> None:
    agents.add_type("second", Worker, Worker, AgentSettings())
    for agent_id in (AgentId("worker", "stubborn"), A, AgentId("second", "x")):
        await agents.get(agents.kind(agent_id.type), agent_id)
    with pytest.raises(OSError, match="no"):
        await agents.close()
    assert sorted(Worker.closed) == ["a", "stubborn", "x"]
    await agents.close()
    for name in ("worker", "second"):
        await agents.get(agents.kind(name), AgentId(name, "stubborn"))
    with pytest.raises(ExceptionGroup, match="several agents"):
        await agents.close()
