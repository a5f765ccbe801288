from dataclasses import dataclass
from typing import Any

import pytest

from callboard import (
    AgentId,
    AgentType,
    CantHandleException,
    ClosureAgent,
    ClosureContext,
    DefaultSubscription,
    MessageContext,
    TopicId,
    TypePrefixSubscription,
    TypeSubscription,
)
from callboard.core.closure import UnknownTypePolicy

from .recording import RecordingRuntime, context


@dataclass
class Visit:
    name: str


@dataclass
class Greeting:
    text: str


async def greet(agent: ClosureContext, message: Visit, ctx: MessageContext) -> Greeting | None:
    await agent.publish_message(message.name, TopicId("names", agent.id.key))
    return Greeting(message.name)


async def anything(agent: ClosureContext, message: Any, ctx: MessageContext) -> Any:
    return message


async def made(closure: Any, policy: UnknownTypePolicy = "warn") -> tuple[RecordingRuntime, ClosureAgent]:
    runtime = RecordingRuntime()
    await ClosureAgent.register_closure(
        runtime, "greeter", closure, unknown_type_policy=policy, description="greets"
    )
    agent: ClosureAgent = await runtime.make("greeter", "k")
    return runtime, agent


async def test_the_function_handles_the_messages() -> None:
    runtime, agent = await made(greet)
    assert await agent.on_message(Visit("Ada"), context(is_rpc=True)) == Greeting("Ada")
    assert agent.metadata == {"type": "greeter", "key": "k", "description": "greets"}
    [(message, topic, options)] = runtime.published
    assert (message, topic, options["sender"]) == ("Ada", TopicId("names", "k"), AgentId("greeter", "k"))


async def test_registering_brings_subscriptions_and_message_types() -> None:
    runtime = RecordingRuntime()
    agent_type = await ClosureAgent.register_closure(
        runtime, "greeter", greet, subscriptions=lambda: [DefaultSubscription()]
    )
    assert agent_type == AgentType("greeter")
    assert runtime.types == [Visit, Greeting]
    assert runtime.subscriptions == [
        TypePrefixSubscription("greeter:", "greeter"),
        TypeSubscription("default", "greeter"),
    ]


async def test_subscriptions_may_be_made_asynchronously_and_the_prefix_left_out() -> None:
    async def subscriptions() -> list[DefaultSubscription]:
        return [DefaultSubscription("visits")]

    runtime = RecordingRuntime()
    await ClosureAgent.register_closure(
        runtime, "greeter", greet, subscriptions=subscriptions, skip_direct_message_subscription=True
    )
    assert runtime.subscriptions == [TypeSubscription("visits", "greeter")]


async def test_an_unknown_type_is_dropped_with_a_warning() -> None:
    runtime, agent = await made(greet)
    with pytest.warns(UserWarning, match="Message type str not in target types Visit of greet"):
        assert await agent.on_message("text", context()) is None
    assert runtime.published == []


async def test_an_unknown_type_can_be_an_error_or_ignored() -> None:
    _, strict = await made(greet, "error")
    with pytest.raises(CantHandleException, match="Message type str not in target types"):
        await strict.on_message("text", context())
    runtime, silent = await made(greet, "ignore")
    assert await silent.on_message("text", context()) is None
    assert runtime.published == []


@pytest.mark.parametrize("policy", ["warn", "error", "ignore"])
async def test_a_request_of_an_unknown_type_is_always_an_error(policy: UnknownTypePolicy) -> None:
    _, agent = await made(greet, policy)
    with pytest.raises(CantHandleException):
        await agent.on_message("text", context(is_rpc=True))


async def test_any_takes_everything() -> None:
    runtime, agent = await made(anything, "error")
    assert await agent.on_message(5, context()) == 5
    assert runtime.types == []


async def test_a_closure_has_no_state() -> None:
    _, agent = await made(greet)
    assert await agent.save_state() == {}
    await agent.load_state({"a": 1})


async def test_a_method_can_be_the_closure() -> None:
    class Collector:
        def __init__(self) -> None:
            self.found: list[str] = []

        async def collect(self, agent: ClosureContext, message: Visit, ctx: MessageContext) -> None:
            self.found.append(message.name)

    collector = Collector()
    _, agent = await made(collector.collect)
    await agent.on_message(Visit("Ada"), context())
    assert collector.found == ["Ada"]


def test_a_closure_agent_is_made_by_a_runtime_only() -> None:
    with pytest.raises(RuntimeError, match="must be instantiated within the context of an AgentRuntime"):
        ClosureAgent("by hand", greet)


async def test_a_wrong_signature_is_refused_before_anything_is_registered() -> None:
    async def two(agent: ClosureContext, message: Visit) -> None: ...
    async def untyped(agent: ClosureContext, message, ctx: MessageContext) -> None: ...  # type: ignore[no-untyped-def]
    async def open_ended(agent: ClosureContext, message: Visit, ctx: MessageContext): ...  # type: ignore[no-untyped-def]

    for closure, sentence in (
        (two, "it must have 3 parameters"),
        (untyped, "Message type not found"),
        (open_ended, "return not found"),
    ):
        runtime = RecordingRuntime()
        with pytest.raises(AssertionError, match=sentence):
            await ClosureAgent.register_closure(runtime, "greeter", closure)  # type: ignore[arg-type]
        assert not runtime.factories
