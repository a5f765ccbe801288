"""Programs of the real autogen_core on our bus."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    AgentInstantiationContext,
    AgentRuntime,
    AgentType,
    CancellationToken,
    ClosureAgent,
    DefaultInterventionHandler,
    DefaultSubscription,
    DefaultTopicId,
    DropMessage,
    MessageContext,
    MessageHandlerContext,
    RoutedAgent,
    TopicId,
    TypePrefixSubscription,
    TypeSubscription,
    default_subscription,
    event,
    message_handler,
    rpc,
)
from autogen_core.exceptions import (
    CantHandleException,
    MessageDroppedException,
    NotAccessibleError,
    UndeliverableException,
)
from pydantic import BaseModel

import callboard
from callboard.errors import DeclarationError
from tests.helpers.eventually import eventually


@dataclass
class Note:
    text: str


class Ask(BaseModel):
    text: str


class OwnError(Exception):
    """An error that only the test knows."""


class Clerk(RoutedAgent):
    """Writes down notes and answers questions."""

    def __init__(self, fail: Exception | None = None) -> None:
        super().__init__("a clerk")
        self.fail = fail
        self.notes: list[str] = []
        self.contexts: list[MessageContext] = []

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        assert MessageHandlerContext.agent_id() == self.id
        self.notes.append(message.text)
        self.contexts.append(ctx)

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> str:
        self.contexts.append(ctx)
        if self.fail:
            raise self.fail
        return f"{self.id.key} says {message.text}"

    async def save_state(self) -> Mapping[str, Any]:
        return {"notes": self.notes}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.notes = list(state["notes"])


async def clerk_of(runtime: Any, agent_type: str = "clerk", key: str = "ada") -> Any:
    return await runtime.try_get_underlying_agent_instance(AgentId(agent_type, key), Clerk)


def test_it_is_a_runtime_of_theirs(runtime: Any) -> None:
    assert isinstance(runtime, AgentRuntime)


async def test_ask_and_answer(runtime: Any) -> None:
    await Clerk.register(runtime, "clerk", Clerk)
    runtime.start()
    assert await runtime.send_message(Ask(text="hi"), AgentId("clerk", "ada")) == "ada says hi"
    (context,) = (await clerk_of(runtime)).contexts
    assert (context.sender, context.topic_id, context.is_rpc) == (None, None, True)
    await runtime.stop_when_idle()


async def test_publish_reaches_subscribers_with_their_context(runtime: Any) -> None:
    await Clerk.register(runtime, "clerk", Clerk)
    await runtime.add_subscription(TypeSubscription("notes", "clerk"))
    runtime.start()
    token = CancellationToken()
    await runtime.publish_message(
        Note("a"),
        TopicId("notes", "ada"),
        sender=AgentId("boss", "b"),
        cancellation_token=token,
        message_id="m1",
    )
    await runtime.stop_when_idle()
    (context,) = (await clerk_of(runtime)).contexts
    assert context.sender == AgentId("boss", "b")
    assert context.topic_id == TopicId("notes", "ada")
    assert not context.is_rpc
    assert context.message_id == "m1"
    assert context.cancellation_token is token


async def test_default_topics_take_the_key_of_the_agent_that_handles(runtime: Any) -> None:
    heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    class Relay(RoutedAgent):
        @message_handler
        async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
            await self.publish_message(Note(message.text), DefaultTopicId())

    async def listen(_: Any, message: Note, ctx: MessageContext) -> None:
        await heard.put((message.text, ctx.topic_id))

    await Relay.register(runtime, "relay", lambda: Relay("relays"))
    await ClosureAgent.register_closure(
        runtime, "listener", listen, subscriptions=lambda: [DefaultSubscription()]
    )
    runtime.start()
    await runtime.send_message(Ask(text="x"), AgentId("relay", "ada"))
    assert await asyncio.wait_for(heard.get(), 10) == ("x", TopicId("default", "ada"))


async def test_the_factory_knows_the_agent_that_it_makes(runtime: Any) -> None:
    seen: list[Any] = []

    def make() -> Clerk:
        seen.append(
            (AgentInstantiationContext.current_runtime(), AgentInstantiationContext.current_agent_id())
        )
        return Clerk()

    await Clerk.register(runtime, "clerk", make)
    await runtime.get(AgentType("clerk"), key="ada", lazy=False)
    assert seen == [(runtime, AgentId("clerk", "ada"))]
    assert (await runtime.agent_metadata(AgentId("clerk", "ada")))["description"] == "a clerk"


async def test_an_instance_can_be_registered(runtime: Any) -> None:
    clerk = Clerk()
    await clerk.register_instance(runtime, AgentId("clerk", "ada"))
    runtime.start()
    assert await runtime.send_message(Ask(text="hi"), AgentId("clerk", "ada")) == "ada says hi"
    assert await clerk_of(runtime) is clerk


async def test_a_factory_that_makes_something_else_is_refused(runtime: Any) -> None:
    await runtime.register_factory("clerk", lambda: "no agent", expected_class=Clerk)
    with pytest.raises(ValueError, match="made a str; it was registered for Clerk"):
        await clerk_of(runtime)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("a value"), ValueError),
        (OwnError("own"), OwnError),
        (CantHandleException("not this"), CantHandleException),
    ],
)
async def test_what_a_handler_raises_comes_back(
    runtime: Any, raised: Exception, expected: type[Exception]
) -> None:
    await Clerk.register(runtime, "clerk", lambda: Clerk(raised))
    runtime.start()
    with pytest.raises(expected, match=str(raised)):
        await runtime.send_message(Ask(text="x"), AgentId("clerk", "ada"))


async def test_an_unknown_recipient_is_undeliverable(runtime: Any) -> None:
    runtime.start()
    with pytest.raises(UndeliverableException):
        await runtime.send_message(Ask(text="x"), AgentId("nobody", "ada"))
    with pytest.raises(LookupError):
        await runtime.try_get_underlying_agent_instance(AgentId("nobody", "ada"))


async def test_agents_ask_each_other_in_a_circle(runtime: Any) -> None:
    class Asker(RoutedAgent):
        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> str:
            if message.text == "again":
                return "circle"
            other = AgentId("second" if self.type == "first" else "first", "x")
            text = "on" if self.type == "first" else "again"
            return str(await self.send_message(Ask(text=text), other))

    for name in ("first", "second"):
        await Asker.register(runtime, name, lambda: Asker("asks"))
    runtime.start()
    answer = runtime.send_message(Ask(text="x"), AgentId("first", "x"))
    assert await asyncio.wait_for(answer, 10) == "circle"


class Odd(TypeSubscription):
    def is_match(self, topic_id: TopicId) -> bool:
        return topic_id.source == "odd"


async def test_subscriptions(runtime: Any) -> None:
    await Clerk.register(runtime, "clerk", Clerk)
    with pytest.raises(DeclarationError, match="Odd can't cross processes"):
        await runtime.add_subscription(Odd("notes", "clerk"))
    by_prefix = TypePrefixSubscription("no", "clerk")
    await runtime.add_subscription(by_prefix)
    with pytest.raises(ValueError, match="no"):
        await runtime.add_subscription(TypePrefixSubscription("no", "clerk"))
    runtime.start()
    await runtime.publish_message(Note("a"), TopicId("notes", "ada"))
    await eventually(lambda: runtime.bus.runtime.handled == 1)
    await runtime.remove_subscription(by_prefix.id)
    await runtime.publish_message(Note("b"), TopicId("notes", "ada"))
    await runtime.stop_when_idle()
    assert (await clerk_of(runtime)).notes == ["a"]
    with pytest.raises(LookupError):
        await runtime.remove_subscription(by_prefix.id)


class Shout(DefaultInterventionHandler):
    """Changes what goes through, or drops it."""

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        assert message_context.is_rpc
        return DropMessage if message.text == "secret" else Ask(text=message.text.upper())

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        assert message_context.topic_id == TopicId("notes", "ada")
        return DropMessage if message.text == "secret" else Note(message.text.upper())

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        return f"{message}!"


async def test_interventions_chain(make_runtime: Callable[..., Any]) -> None:
    runtime = make_runtime(intervention_handlers=[Shout(), Shout()])
    await Clerk.register(runtime, "clerk", Clerk)
    await runtime.add_subscription(TypeSubscription("notes", "clerk"))
    runtime.start()
    assert await runtime.send_message(Ask(text="hi"), AgentId("clerk", "ada")) == "ada says HI!!"
    with pytest.raises(MessageDroppedException):
        await runtime.send_message(Ask(text="secret"), AgentId("clerk", "ada"))
    for text in ("secret", "a"):
        await runtime.publish_message(Note(text), TopicId("notes", "ada"))
    await runtime.stop_when_idle()
    assert (await clerk_of(runtime)).notes == ["A"]


async def test_what_an_agent_saves_is_stored_with_what_it_handles(make_runtime: Callable[..., Any]) -> None:
    first = make_runtime()
    await Clerk.register(first, "clerk", Clerk)
    await first.add_subscription(TypeSubscription("notes", "clerk"))
    first.start()
    await first.publish_message(Note("a"), TopicId("notes", "ada"))
    await first.stop_when_idle()
    second = make_runtime()
    await Clerk.register(second, "clerk", Clerk)
    assert (await clerk_of(second)).notes == ["a"]
    assert await second.agent_save_state(AgentId("clerk", "ada")) == {"notes": ["a"]}
    assert await second.save_state() == {"clerk/ada": {"notes": ["a"]}}
    await second.load_state({"clerk/ada": {"notes": ["b"]}, "gone/ada": {}})
    third = make_runtime()
    await Clerk.register(third, "clerk", Clerk)
    assert (await clerk_of(third)).notes == ["b"]


async def test_a_handler_that_fails_leaves_its_agent_as_it_is(runtime: Any) -> None:
    class Hasty(Clerk):
        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            self.notes.append(message.text)
            if message.text == "bad":
                raise OwnError

    await Hasty.register(runtime, "clerk", Hasty)
    await runtime.add_subscription(TypeSubscription("notes", "clerk"))
    runtime.start()
    for text in ("a", "bad", "c"):
        await runtime.publish_message(Note(text), TopicId("notes", "ada"))
    await runtime.stop_when_idle()
    assert (await clerk_of(runtime)).notes == ["a", "bad", "c"], "once each, and nothing is taken back"


async def test_a_state_that_is_no_json_is_told(make_runtime: Callable[..., Any]) -> None:
    class Closed(Clerk):
        async def save_state(self) -> Mapping[str, Any]:
            return {"lock": object()}

    runtime = make_runtime()
    await Closed.register(runtime, "clerk", Closed)
    runtime.start()
    with pytest.raises(DeclarationError, match="save_states=False"):
        await runtime.send_message(Ask(text="x"), AgentId("clerk", "ada"))
    without = make_runtime(save_states=False)
    await Closed.register(without, "other", Closed)
    without.start()
    assert await without.send_message(Ask(text="x"), AgentId("other", "ada")) == "ada says x"


async def test_an_agent_of_another_process_is_not_accessible(make_runtime: Callable[..., Any]) -> None:
    first, second = make_runtime(), make_runtime()
    await Clerk.register(first, "clerk", Clerk)
    await first.bus.runtime.open()
    await second.bus.runtime.open()
    with pytest.raises(NotAccessibleError):
        await clerk_of(second)


async def test_a_token_is_cancelled_in_the_other_process_too(make_runtime: Callable[..., Any]) -> None:
    first, second = make_runtime(), make_runtime()
    await Clerk.register(second, "clerk", Clerk)
    await second.add_subscription(TypeSubscription("notes", "clerk"))
    first.start()
    second.start()
    await second.bus.runtime.ready()
    token = CancellationToken()
    await first.publish_message(Note("a"), TopicId("notes", "ada"), cancellation_token=token)
    clerk = await clerk_of(second)
    await eventually(lambda: clerk.contexts)
    theirs = clerk.contexts[0].cancellation_token
    assert theirs is not token
    token.cancel()
    await eventually(theirs.is_cancelled)
    await first.publish_message(Note("b"), TopicId("notes", "ada"), cancellation_token=token)
    await eventually(lambda: len(clerk.contexts) == 2)
    assert clerk.contexts[1].cancellation_token.is_cancelled()


async def test_a_process_that_comes_later_hears_of_a_cancelled_token(
    make_runtime: Callable[..., Any],
) -> None:
    first, second = make_runtime(), make_runtime()
    await Clerk.register(second, "clerk", Clerk)
    await second.add_subscription(TypeSubscription("notes", "clerk"))
    await second.bus.runtime.open()
    first.start()
    token = CancellationToken()
    await first.publish_message(Note("a"), TopicId("notes", "ada"), cancellation_token=token)
    token.cancel()
    await asyncio.sleep(0)
    await first.bus.tokens.close()
    second.start()
    clerk = await clerk_of(second)
    await eventually(lambda: clerk.contexts)
    assert clerk.contexts[0].cancellation_token.is_cancelled()


async def test_errors_of_events_are_raised_when_asked_for(make_runtime: Callable[..., Any]) -> None:
    class Bad(RoutedAgent):
        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            raise OwnError("bad note")

    runtime = make_runtime(ignore_unhandled_exceptions=False)
    await default_subscription(Bad).register(runtime, "bad", lambda: Bad("bad"))
    runtime.start()
    await runtime.publish_message(Note("a"), DefaultTopicId())
    with pytest.raises(OwnError, match="bad note"):
        await runtime.stop_when_idle()


async def test_a_message_that_can_not_leave_is_told_at_once(runtime: Any) -> None:
    class Plain:
        pass

    await Clerk.register(runtime, "clerk", Clerk)
    runtime.start()
    with pytest.raises(DeclarationError, match="Plain"):
        await runtime.send_message(Plain(), AgentId("clerk", "ada"))
    with pytest.raises(DeclarationError, match="Plain"):
        await runtime.publish_message(Plain(), DefaultTopicId())


async def test_a_runtime_that_is_started_twice(runtime: Any) -> None:
    runtime.start()
    with pytest.raises(RuntimeError, match="already started"):
        runtime.start()


class Native(callboard.RoutedAgent):
    """An agent of ours."""

    def __init__(self) -> None:
        super().__init__("ours")
        self.heard: list[str] = []

    @callboard.event
    async def on_note(self, message: Note, ctx: callboard.MessageContext) -> None:
        self.heard.append(f"{message.text} of {ctx.sender}")

    @callboard.rpc
    async def on_ask(self, message: Ask, ctx: callboard.MessageContext) -> str:
        answer = await self.send_message(Ask(text=message.text), callboard.AgentId("clerk", "ada"))
        return f"ours heard that {answer}"


async def test_agents_of_ours_and_of_theirs_talk_to_each_other(
    url: str, namespace: str, runtime: Any
) -> None:
    await Clerk.register(runtime, "clerk", Clerk)
    runtime.start()
    async with callboard.RedisAgentRuntime(url, namespace=namespace) as ours:
        await Native.register(ours, "native", Native)
        await ours.add_subscription(callboard.TypeSubscription("notes", "native"))
        ours.start()
        await ours.ready()
        answer = await runtime.send_message(
            Ask(text="hi"), AgentId("native", "x"), cancellation_token=CancellationToken()
        )
        assert answer == "ours heard that ada says hi"
        await runtime.publish_message(Note("a"), TopicId("notes", "x"), sender=AgentId("clerk", "ada"))
        native = await ours.try_get_underlying_agent_instance(callboard.AgentId("native", "x"), Native)
        await eventually(lambda: native.heard == ["a of clerk/ada"])


async def test_plain_values_travel_with_a_token(runtime: Any) -> None:
    got: list[Any] = []

    async def take(_: Any, message: Any, ctx: MessageContext) -> Any:
        got.append((message, ctx.cancellation_token))
        return [message]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await ClosureAgent.register_closure(runtime, "taker", take, unknown_type_policy="ignore")
    runtime.start()
    token = CancellationToken()
    for value in ("text", 1, None, {"a": [1]}):
        assert await runtime.send_message(value, AgentId("taker", "x"), cancellation_token=token) == [value]
    assert got[0] == ("text", token)
