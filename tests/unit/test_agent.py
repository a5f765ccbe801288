import warnings
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    AgentInstantiationContext,
    AgentType,
    BaseAgent,
    CancellationToken,
    MessageContext,
    TopicId,
    TypePrefixSubscription,
    TypeSubscription,
    default_subscription,
    handles,
    type_subscription,
)
from callboard.core.protocol import Agent, AgentRuntime
from callboard.errors import MisuseError

from .recording import RecordingRuntime, context


class Note(BaseModel):
    text: str


class Echo(BaseAgent):
    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        return message


@type_subscription("notes")
@default_subscription
@handles(Note)
class Subscribed(Echo):
    pass


class Unsubscribed(Subscribed):
    pass


async def bound(runtime: RecordingRuntime) -> Echo:
    agent = Echo("echoes")
    await agent.bind_id_and_runtime(AgentId("echo", "1"), runtime)
    return agent


def test_the_recording_runtime_is_a_runtime() -> None:
    assert isinstance(RecordingRuntime(), AgentRuntime)


async def test_an_agent_tells_who_it_is() -> None:
    runtime = RecordingRuntime()
    agent = await bound(runtime)
    assert isinstance(agent, Agent)
    assert agent.id == AgentId("echo", "1")
    assert agent.type == "echo"
    assert agent.runtime is runtime
    assert agent.metadata == {"type": "echo", "key": "1", "description": "echoes"}


async def test_on_message_passes_everything_on() -> None:
    note = Note(text="x")
    assert await Echo().on_message(note, context()) is note


def test_the_description_must_be_a_string() -> None:
    with pytest.raises(ValueError, match="Agent description must be a string, not int"):
        Echo(5)  # type: ignore[arg-type]


def test_an_unbound_agent_has_no_id() -> None:
    with pytest.raises(AttributeError, match="This Echo belongs to no runtime yet"):
        Echo().id  # noqa: B018
    with pytest.raises(MisuseError):
        Echo().runtime  # noqa: B018


def test_an_agent_without_on_message_impl_can_not_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BaseAgent("nothing")  # type: ignore[abstract]


def test_an_agent_made_in_a_factory_is_bound() -> None:
    runtime, agent_id = RecordingRuntime(), AgentId("echo", "1")
    with AgentInstantiationContext.populate_context((runtime, agent_id)):
        agent = Echo()
    assert agent.id == agent_id
    assert agent.runtime is runtime


async def test_binding_again_to_the_same_changes_nothing() -> None:
    runtime = RecordingRuntime()
    agent = await bound(runtime)
    await agent.bind_id_and_runtime(AgentId("echo", "1"), runtime)
    assert agent.id == AgentId("echo", "1")


async def test_binding_to_another_id_or_runtime_is_refused() -> None:
    runtime = RecordingRuntime()
    agent = await bound(runtime)
    with pytest.raises(RuntimeError, match="already bound to a different ID"):
        await agent.bind_id_and_runtime(AgentId("echo", "2"), runtime)
    with pytest.raises(MisuseError, match="already bound to a different runtime"):
        await agent.bind_id_and_runtime(AgentId("echo", "1"), RecordingRuntime())


async def test_sending_names_the_sender() -> None:
    runtime, token = RecordingRuntime(), CancellationToken()
    agent = await bound(runtime)
    to = AgentId("other", "1")
    assert (
        await agent.send_message("hi", to, cancellation_token=token, message_id="m", claim_check=True)
        == "answer"
    )
    assert runtime.sent == [
        (
            "hi",
            to,
            {"sender": agent.id, "cancellation_token": token, "message_id": "m", "claim_check": True},
        ),
    ]


async def test_publishing_names_the_sender_and_passes_the_options() -> None:
    runtime, topic = RecordingRuntime(), TopicId("notes", "1")
    agent = await bound(runtime)
    due = datetime(2026, 11, 21, tzinfo=UTC)
    await agent.publish_message("hi", topic)
    await agent.publish_message("later", topic, message_id="m", delay=1.5)
    await agent.publish_message("then", topic, at=due, now=True)
    options = {"sender": agent.id, "cancellation_token": None, "message_id": None}
    assert runtime.published == [
        ("hi", topic, options),
        ("later", topic, {**options, "message_id": "m", "delay": 1.5}),
        ("then", topic, {**options, "at": due, "now": True}),
    ]


async def test_without_a_state_saving_and_loading_only_warn() -> None:
    agent = Echo()
    with pytest.warns(UserWarning, match="save_state not implemented in Echo"):
        assert await agent.save_state() == {}
    with pytest.warns(UserWarning, match="load_state not implemented in Echo"):
        await agent.load_state({"a": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await agent.close()


async def test_register_brings_the_class_subscriptions_the_prefix_and_the_message_types() -> None:
    runtime = RecordingRuntime()
    assert await Subscribed.register(runtime, "sub", Subscribed) == AgentType("sub")
    assert runtime.expected == {"sub": Subscribed}
    assert runtime.subscriptions == [
        TypeSubscription("default", "sub"),
        TypeSubscription("notes", "sub"),
        TypePrefixSubscription("sub:", "sub"),
    ]
    assert runtime.types == [Note]
    assert (await runtime.make("sub", "k")).id == AgentId("sub", "k")


async def test_register_leaves_out_what_it_is_told_to() -> None:
    runtime = RecordingRuntime()
    await Subscribed.register(
        runtime,
        "sub",
        Subscribed,
        skip_class_subscriptions=True,
        skip_direct_message_subscription=True,
    )
    assert runtime.subscriptions == []


async def test_a_type_can_be_registered_once() -> None:
    runtime = RecordingRuntime()
    await Echo.register(runtime, "echo", Echo)
    with pytest.raises(ValueError, match="echo"):
        await Echo.register(runtime, "echo", Echo)


async def test_an_invalid_type_is_refused() -> None:
    with pytest.raises(ValueError, match="not a valid agent type"):
        await Echo.register(RecordingRuntime(), "no spaces", Echo)


async def test_subclasses_inherit_neither_subscriptions_nor_extra_types() -> None:
    runtime = RecordingRuntime()
    await Unsubscribed.register(runtime, "un", Unsubscribed)
    assert runtime.subscriptions == [TypePrefixSubscription("un:", "un")]
    assert runtime.types == []


async def test_a_factory_may_be_async() -> None:
    async def factory() -> Echo:
        return Echo("made later")

    runtime = RecordingRuntime()
    await Echo.register(runtime, "echo", factory)
    assert (await runtime.make("echo")).metadata["description"] == "made later"


async def test_an_instance_subscribes_to_its_key_and_not_to_what_its_class_says() -> None:
    runtime, agent = RecordingRuntime(), Subscribed()
    assert await agent.register_instance(runtime, AgentId("sub", "k")) == AgentId("sub", "k")
    assert agent.id == AgentId("sub", "k")
    assert runtime.subscriptions == [TypeSubscription("k", "sub"), TypePrefixSubscription("sub:", "sub")]
    assert runtime.types == [Note]


async def test_an_instance_may_ask_for_the_class_subscriptions() -> None:
    runtime = RecordingRuntime()
    await Subscribed().register_instance(
        runtime,
        AgentId("sub", "k"),
        skip_class_subscriptions=False,
        skip_direct_message_subscription=True,
    )
    assert runtime.subscriptions == [
        TypeSubscription("k", "sub"),
        TypeSubscription("default", "sub"),
        TypeSubscription("notes", "sub"),
    ]


async def test_several_instances_share_the_prefix_of_their_type() -> None:
    runtime = RecordingRuntime()
    await Echo().register_instance(runtime, AgentId("echo", "1"))
    await Echo().register_instance(runtime, AgentId("echo", "2"))
    assert runtime.subscriptions == [
        TypeSubscription("1", "echo"),
        TypePrefixSubscription("echo:", "echo"),
        TypeSubscription("2", "echo"),
    ]


async def test_an_instance_whose_key_is_no_topic_type_is_registered_without_that_topic() -> None:
    runtime = RecordingRuntime()
    await Echo().register_instance(runtime, AgentId("echo", "a key/with anything"))
    assert runtime.subscriptions == [TypePrefixSubscription("echo:", "echo")]
