"""Agent types and agents: how they are registered, made, found, described and closed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from callboard import (
    Agent,
    AgentId,
    AgentInstantiationContext,
    AgentProxy,
    AgentType,
    BaseAgent,
    CantHandleException,
    ClosureAgent,
    ClosureContext,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    UndeliverableException,
    rpc,
    type_subscription,
)
from callboard.errors import DeclarationError, DuplicateAgentTypeError, UnknownNameError
from callboard.runtime.errors import UnknownInstanceError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Heard, Listener, Note, Runtimes, closure, listener


class Namer(RoutedAgent):
    """Says who it is; counts how many were made and closed."""

    made: list[str]
    closed: list[str]

    def __init__(self, description: str = "names itself") -> None:
        super().__init__(description)

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        return Answer(text=f"{self.id} {message.text}")


async def _namer(runtime: RedisAgentRuntime, type: str = "namer") -> list[str]:
    """Registers a Namer; returns the keys of those that were made."""
    made: list[str] = []

    def factory() -> Namer:
        made.append(AgentInstantiationContext.current_agent_id().key)
        return Namer()

    await Namer.register(runtime, type, factory)
    return made


async def test_an_agent_is_made_at_its_first_message_and_once_per_key(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    made = await _namer(runtime)
    assert await runtime.get("namer", "a") == AgentId("namer", "a")
    assert made == []
    for _ in range(3):
        for key in ("a", "b c/d", ""):
            answer = await runtime.send_message(Ask(text="?"), AgentId("namer", key))
            assert answer == Answer(text=f"namer/{key} ?")
    assert made == ["a", "b c/d", ""]


async def test_get_can_make_the_agent_and_knows_default_keys(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    made = await _namer(runtime)
    assert await runtime.get("namer") == AgentId("namer", "default")
    assert await runtime.get(AgentType("namer"), "x", lazy=False) == AgentId("namer", "x")
    assert await runtime.get(AgentId("namer", "y"), lazy=False) == AgentId("namer", "y")
    assert made == ["x", "y"]
    with pytest.raises(UnknownNameError, match="namer"):
        await runtime.get("name", lazy=False)


async def test_an_async_factory_asked_many_times_at_once_makes_one_agent(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    may_go_on = asyncio.Event()
    made: list[Namer] = []

    async def factory() -> Namer:
        await may_go_on.wait()
        made.append(Namer(AgentInstantiationContext.current_agent_id().key))
        return made[-1]

    await Namer.register(runtime, "namer", factory)
    agent_id = AgentId("namer", "a")
    calls = [asyncio.ensure_future(runtime.send_message(Ask(), agent_id)) for _ in range(5)]
    found = [asyncio.create_task(runtime.get(agent_id, lazy=False)) for _ in range(5)]
    await eventually(lambda: runtime.unprocessed_messages_count)
    may_go_on.set()
    await asyncio.gather(*calls)
    await asyncio.gather(*found)
    assert len(made) == 1
    assert await runtime.try_get_underlying_agent_instance(agent_id) is made[0]


async def test_a_factory_that_fails_fails_for_this_key_only_and_is_asked_again(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    asked: list[str] = []

    def factory() -> Namer:
        key = AgentInstantiationContext.current_agent_id().key
        asked.append(key)
        if asked.count(key) < 2 and key == "bad":
            raise ConnectionRefusedError("not yet")
        return Namer()

    await Namer.register(runtime, "namer", factory)
    heard = await listener(runtime, "listener", "news")
    await runtime.add_subscription(TypeSubscription("news", "namer"))
    with pytest.raises(ConnectionRefusedError, match="not yet"):
        await runtime.send_message(Ask(), AgentId("namer", "bad"))
    await runtime.publish_message(Note(text="1"), TopicId("news", "good"))
    assert await runtime.send_message(Ask(text="."), AgentId("namer", "bad")) == Answer(text="namer/bad .")
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["1"], "another subscriber's constructor is none of its business"


async def test_a_type_is_registered_once(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    await _namer(runtime)
    with pytest.raises(DuplicateAgentTypeError):
        await Namer.register(runtime, "namer", Namer)
    with pytest.raises(ValueError, match="namer"):
        await Namer().register_instance(runtime, AgentId("namer", "one"))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a:b"])
async def test_a_type_with_other_characters_is_refused(runtimes: Runtimes, name: str) -> None:
    with pytest.raises(ValueError, match="agent type"):
        await Namer.register(runtimes.new(), name, Namer)


async def test_a_factory_with_parameters_is_refused_at_once(runtimes: Runtimes) -> None:
    def factory(_runtime: Any, _id: Any) -> Namer:
        raise AssertionError("never called")

    with pytest.raises(TypeError, match="without arguments"):
        await runtimes.new().register_factory("namer", factory)  # type: ignore[arg-type]


async def test_what_the_factory_makes_is_checked_at_the_first_use(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await runtime.register_factory("namer", lambda: Listener([]), expected_class=Namer)  # type: ignore[arg-type, return-value]
    with pytest.raises(DeclarationError, match=r"made a Listener.*Namer"):
        await runtime.send_message(Ask(), AgentId("namer", "a"))
    with pytest.raises(ValueError, match="Listener"):
        await runtime.get("namer", lazy=False)


async def test_an_instance_is_an_agent_and_subscribes_to_its_key(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard: list[Heard] = []
    agent = Listener(heard)
    assert await agent.register_instance(runtime, AgentId("listener", "desk")) == AgentId("listener", "desk")
    await runtime.publish_message(Note(text="by key"), TopicId("desk", "desk"))
    await runtime.publish_message(Note(text="direct"), TopicId("listener:x", "desk"))
    await runtime.stop_when_idle()
    assert [(one.text, one.topic) for one in heard] == [
        ("by key", "desk/desk"),
        ("direct", "listener:x/desk"),
    ]
    assert await runtime.try_get_underlying_agent_instance(AgentId("listener", "desk")) is agent


async def test_instances_of_one_type(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    for key in ("a", "b"):
        await Namer().register_instance(runtime, AgentId("namer", key))
    answer = await runtime.send_message(Ask(text="?"), AgentId("namer", "b"))
    assert answer == Answer(text="namer/b ?")
    with pytest.raises(DeclarationError, match="there is an agent"):
        await Namer().register_instance(runtime, AgentId("namer", "a"))
    with pytest.raises(DeclarationError, match="of one class"):
        await Listener([]).register_instance(runtime, AgentId("namer", "c"))
    with pytest.raises(UnknownInstanceError, match="namer/c"):
        await runtime.send_message(Ask(), AgentId("namer", "c"))
    with pytest.raises(ValueError, match="namer"):
        await Namer.register(runtime, "namer", Namer)


async def test_an_agent_belongs_to_one_id_and_one_runtime(runtimes: Runtimes) -> None:
    runtime, other = runtimes.new(), runtimes.new()
    agent = Namer()
    await agent.register_instance(runtime, AgentId("namer", "a"))
    with pytest.raises(RuntimeError):
        await agent.register_instance(runtime, AgentId("other", "a"))
    with pytest.raises(RuntimeError):
        await agent.register_instance(other, AgentId("namer", "a"))


async def test_the_object_behind_an_id(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    await _namer(runtime)
    agent = await runtime.try_get_underlying_agent_instance(AgentId("namer", "a"), Namer)
    assert isinstance(agent, Namer)
    assert agent.runtime is runtime
    with pytest.raises(TypeError, match=r"namer/a is a Namer, not a Listener"):
        await runtime.try_get_underlying_agent_instance(AgentId("namer", "a"), Listener)
    with pytest.raises(LookupError):
        await runtime.try_get_underlying_agent_instance(AgentId("nobody", "a"))


async def test_a_proxy_and_metadata(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await _namer(runtime)
    proxy = AgentProxy(AgentId("namer", "a"), runtime)
    assert await proxy.metadata == {"type": "namer", "key": "a", "description": "names itself"}
    assert await proxy.send_message(Ask(text="hi")) == Answer(text="namer/a hi")


async def test_subscriptions_of_the_class_and_those_that_are_left_out(runtimes: Runtimes) -> None:
    @type_subscription("orders")
    class Clerk(Listener):
        """Subscribes by its class."""

    runtime = await runtimes.started()
    heard: dict[str, list[Heard]] = {"one": [], "two": []}
    await Clerk.register(runtime, "one", lambda: Clerk(heard["one"]))
    await Clerk.register(
        runtime,
        "two",
        lambda: Clerk(heard["two"]),
        skip_class_subscriptions=True,
        skip_direct_message_subscription=True,
    )
    await runtime.publish_message(Note(text="order"), TopicId("orders", "a"))
    await runtime.publish_message(Note(text="direct"), TopicId("one:x", "a"))
    await runtime.publish_message(Note(text="direct"), TopicId("two:x", "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard["one"]] == ["order", "direct"]
    assert heard["two"] == []


async def test_types_may_come_while_the_runtime_works(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    first = await listener(runtime, "first", "news")
    await runtime.publish_message(Note(text="1"), TopicId("news", "a"))
    await eventually(lambda: first)
    second = await listener(runtime, "second", "news")
    await runtime.publish_message(Note(text="2"), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in first] == ["1", "2"]
    assert [one.text for one in second] == ["2"], "a later subscription begins where it is made"


async def test_a_subscription_may_come_before_its_type(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await runtime.add_subscription(TypeSubscription("news", "late"))
    await runtime.publish_message(Note(text="early"), TopicId("news", "a"))
    heard = await listener(runtime, "late")
    await eventually(lambda: heard)
    await runtime.stop_when_idle()


async def test_a_closure_is_an_agent(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    seen: list[str] = []

    async def clerk(agent: ClosureContext, message: Note | Ask, ctx: MessageContext) -> Answer | None:
        seen.append(f"{agent.id} {type(message).__name__} {ctx.is_rpc}")
        return Answer(text=message.text) if ctx.is_rpc else None

    await closure(runtime, "clerk", clerk, "news")
    await runtime.publish_message(Note(), TopicId("news", "a"))
    assert await runtime.send_message(Ask(text="x"), AgentId("clerk", "b")) == Answer(text="x")
    await runtime.stop_when_idle()
    assert sorted(seen) == ["clerk/a Note False", "clerk/b Ask True"]
    runtime.start()
    with pytest.raises(CantHandleException):
        await runtime.send_message(Answer(), AgentId("clerk", "b"))


async def test_a_closure_outside_of_a_runtime_is_refused(runtimes: Runtimes) -> None:
    async def clerk(agent: ClosureContext, message: Note, ctx: MessageContext) -> None: ...

    with pytest.raises(RuntimeError):
        ClosureAgent("", clerk)


async def test_an_agent_from_the_base_class(runtimes: Runtimes) -> None:
    class Echo(BaseAgent):
        """Answers with what it got."""

        async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
            return message

    runtime = await runtimes.started()
    await Echo.register(runtime, "echo", lambda: Echo("echoes"))
    for value in ("text", 7, 1.5, True, b"bytes", [1, "a"], {"a": [1]}, None, Note(text="n")):
        assert await runtime.send_message(value, AgentId("echo", "a")) == value


async def test_close_closes_each_agent_once(runtimes: Runtimes) -> None:
    closed: list[str] = []

    class Closing(Namer):
        """Says when it is closed."""

        async def close(self) -> None:
            closed.append(str(self.id))

    runtime = await runtimes.started()
    await Closing.register(runtime, "made", Closing)
    await Closing().register_instance(runtime, AgentId("given", "x"))
    for key in ("a", "b"):
        await runtime.send_message(Ask(), AgentId("made", key))
    await runtime.stop()
    assert closed == [], "after a stop they go on where they were"
    await runtime.close()
    await runtime.close()
    assert sorted(closed) == ["given/x", "made/a", "made/b"]


async def test_a_handler_for_nothing_and_a_recipient_of_no_type(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await _namer(runtime)
    with pytest.raises(CantHandleException, match=r"Namer.*Note"):
        await runtime.send_message(Note(), AgentId("namer", "a"))
    with pytest.raises(UndeliverableException, match="nobody"):
        await runtime.send_message(Ask(), AgentId("nobody", "a"))


async def test_any_class_that_looks_like_an_agent_is_one(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await _namer(runtime)
    agent: Agent = await runtime.try_get_underlying_agent_instance(AgentId("namer", "a"))
    assert isinstance(agent, Agent)


async def test_idle_agents_without_state_do_not_stay_for_ever(runtimes: Runtimes) -> None:
    alive: weakref.WeakSet[Listener] = weakref.WeakSet()

    def made() -> Listener:
        alive.add(agent := Listener([]))
        return agent

    runtime = await runtimes.started(settings={"passivate_after": 0.05, "max_idle_agents": 5})
    await Listener.register(runtime, "listener", made)
    await runtime.add_subscription(TypeSubscription("news", "listener"))
    for number in range(50):
        await runtime.publish_message(Note(text="1"), TopicId("news", f"k{number}"))
    await eventually(lambda: runtime.handled == 50)

    def awake() -> int:
        gc.collect()
        return len(alive)

    assert await eventually(lambda: awake() == 5)
    await runtime.stop_when_idle()


async def test_an_agent_that_works_for_long_is_not_idle(runtimes: Runtimes) -> None:
    alive: weakref.WeakSet[Slow] = weakref.WeakSet()
    may_end = asyncio.Event()

    class Slow(RoutedAgent):
        """The first of them works until it may end."""

        def __init__(self) -> None:
            super().__init__("works")
            alive.add(self)
            self.handled = 0

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            if self.id.key == "busy" and not self.handled:
                await may_end.wait()
            self.handled += 1
            return Answer(text=str(self.handled))

    runtime = await runtimes.started(settings={"passivate_after": 0.5, "max_idle_agents": 1})
    await Slow.register(runtime, "slow", Slow)
    asking = [asyncio.create_task(runtime.send_message(Ask(), AgentId("slow", "busy"))) for _ in range(2)]
    await eventually(lambda: len(alive) == 1)
    for key in ("a", "b", "c"):
        await runtime.send_message(Ask(), AgentId("slow", key))

    def awake() -> set[str]:
        gc.collect()
        return {agent.id.key for agent in alive}

    assert await eventually(lambda: awake() == {"busy", "c"})
    may_end.set()
    first, second = await asyncio.gather(*asking)
    assert first.text == "1"
    assert second.text in ("1", "2"), "on a slow machine it goes to sleep between the two"
    await runtime.stop_when_idle()
