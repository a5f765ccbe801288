import logging
from dataclasses import dataclass
from typing import Any, Self

import pytest
from pydantic import BaseModel

from callboard import CantHandleException, MessageContext, RoutedAgent, event, handles, message_handler, rpc

from .recording import RecordingRuntime, context


@dataclass
class Animal:
    name: str = ""


class Cat(Animal):
    pass


class Lion(Cat):
    pass


class Answer(BaseModel):
    text: str = ""


class Keeper(RoutedAgent):
    """Writes down which handler was called."""

    def __init__(self) -> None:
        super().__init__("keeps animals")
        self.calls: list[str] = []

    @event
    async def on_animal(self, message: Animal, ctx: MessageContext) -> None:
        self.calls.append("animal")

    @event
    async def on_cat(self, message: Cat, ctx: MessageContext) -> None:
        self.calls.append("cat")

    @rpc
    async def ask_cat(self, message: Cat, ctx: MessageContext) -> Answer | None:
        self.calls.append("asked")
        return Answer(text=message.name) if message.name else None


class Matching(RoutedAgent):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    @event(match=lambda message, ctx: message.name == "z")
    async def z(self, message: Animal, ctx: MessageContext) -> None:
        self.calls.append("z")

    @message_handler(match=lambda message, ctx: message.name in "az")
    async def a(self, message: Animal, ctx: MessageContext) -> None:
        self.calls.append("a")

    @event
    async def rest(self, message: Animal, ctx: MessageContext) -> None:
        self.calls.append("rest")

    @event
    async def never(self, message: Animal, ctx: MessageContext) -> None:
        self.calls.append("never")


async def calls_of(agent: Any, *messages: Any, is_rpc: bool = False) -> list[str]:
    for message in messages:
        await agent.on_message(message, context(is_rpc=is_rpc))
    calls: list[str] = agent.calls
    return calls


async def test_the_exact_class_wins_and_else_the_nearest_base_class() -> None:
    assert await calls_of(Keeper(), Animal(), Cat(), Lion()) == ["animal", "cat", "cat"]


async def test_requests_and_events_have_their_own_handlers() -> None:
    agent = Keeper()
    assert await agent.on_message(Lion("Leo"), context(is_rpc=True)) == Answer(text="Leo")
    assert await agent.on_message(Cat(), context(is_rpc=True)) is None
    assert agent.calls == ["asked", "asked"]


async def test_handlers_are_asked_in_the_order_of_definition() -> None:
    messages = [Animal("z"), Animal("a"), Animal("?")]
    assert await calls_of(Matching(), *messages) == ["z", "a", "rest"]


async def test_a_message_handler_takes_both_kinds() -> None:
    assert await calls_of(Matching(), Animal("a"), Animal("z"), is_rpc=True) == ["a", "a"]


async def test_match_gets_the_message_and_its_context() -> None:
    seen: list[tuple[Any, Any]] = []

    class Agent(RoutedAgent):
        @event(match=lambda message, ctx: bool(seen.append((message, ctx))))  # type: ignore[func-returns-value]
        async def on_animal(self, message: Animal, ctx: MessageContext) -> None: ...

    message, ctx = Animal(), context()
    await Agent().on_message(message, ctx)
    assert seen == [(message, ctx)]


async def test_when_no_exact_handler_matches_those_for_the_base_class_are_asked() -> None:
    class Agent(Keeper):
        @event(match=lambda message, ctx: message.name == "tom")
        async def on_cat(self, message: Cat, ctx: MessageContext) -> None:
            self.calls.append("tom")

    assert await calls_of(Agent(), Cat("tom"), Cat("other")) == ["tom", "animal"]


async def test_any_takes_what_nobody_else_takes() -> None:
    class Agent(Keeper):
        @message_handler
        async def everything(self, message: Any, ctx: MessageContext) -> Any:
            self.calls.append(type(message).__name__)

    assert await calls_of(Agent(), Cat(), "text", 5, None) == ["cat", "str", "int", "NoneType"]
    assert Agent.handled_types() == (Animal, Cat)


async def test_a_union_is_handled_by_one_handler() -> None:
    class Agent(RoutedAgent):
        @rpc
        async def either(self, message: Answer | str, ctx: MessageContext) -> str:
            return type(message).__name__

    agent = Agent()
    assert await agent.on_message("x", context(is_rpc=True)) == "str"
    assert await agent.on_message(Answer(), context(is_rpc=True)) == "Answer"
    assert Agent.handled_types() == (Answer, str)
    assert Agent.produced_types() == (str,)


async def test_a_subclass_adds_replaces_and_removes_handlers() -> None:
    class Agent(Keeper):
        @event
        async def on_lion(self, message: Lion, ctx: MessageContext) -> None:
            self.calls.append("lion")

        @event
        async def on_cat(self, message: Cat, ctx: MessageContext) -> None:
            await super().on_cat(message, ctx)
            self.calls.append("again")

        async def on_animal(self, message: Animal, ctx: MessageContext) -> None:
            raise AssertionError("no handler any more")

    assert await calls_of(Agent(), Lion(), Cat(), Animal()) == ["lion", "cat", "again"]
    assert Agent.handled_types() == (Lion, Cat)
    assert Keeper.handled_types() == (Animal, Cat)


async def test_handlers_of_a_subclass_are_asked_first() -> None:
    class Agent(Keeper):
        @event
        async def on_animal_too(self, message: Animal, ctx: MessageContext) -> None:
            self.calls.append("sub")

    assert await calls_of(Agent(), Animal()) == ["sub"]


async def test_handlers_come_from_mixins_too() -> None:
    class Mixin:
        calls: list[str]

        @event
        async def on_answer(self, message: Answer, ctx: MessageContext) -> None:
            self.calls.append("mixin")

    class Agent(Mixin, Keeper):
        pass

    assert await calls_of(Agent(), Answer(), Cat()) == ["mixin", "cat"]


async def test_a_request_without_a_handler_raises_at_the_caller() -> None:
    with pytest.raises(
        CantHandleException, match="Keeper has no handler for a request of type Animal"
    ) as raised:
        await Keeper().on_message(Animal(), context(is_rpc=True))
    assert raised.value.permanent


async def test_an_event_without_a_handler_is_logged_without_its_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="callboard.actors"):
        assert await Keeper().on_message("secret", context()) is None
    assert caplog.messages == ["Unhandled message: Keeper has no handler for str"]


async def test_on_unhandled_message_can_be_overridden() -> None:
    class Strict(Keeper):
        async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> None:
            raise ValueError(f"Unhandled message in agent: {message}")

    for is_rpc in (True, False):
        with pytest.raises(ValueError, match="Unhandled message in agent: x"):
            await Strict().on_message("x", context(is_rpc=is_rpc))


async def test_an_error_of_a_handler_passes_through_unchanged() -> None:
    error = LookupError("mine")

    class Agent(RoutedAgent):
        @event
        async def on_animal(self, message: Animal, ctx: MessageContext) -> None:
            raise error

    with pytest.raises(LookupError) as raised:
        await Agent().on_message(Animal(), context())
    assert raised.value is error


async def test_attributes_that_only_look_like_handlers_are_not() -> None:
    class HasEveryAttribute:
        def __getattr__(self, name: str) -> Self:
            if name.startswith("__"):
                raise AttributeError(name)
            return self

    class Agent(Keeper):
        helper = HasEveryAttribute()

    assert await calls_of(Agent(), Cat()) == ["cat"]


async def test_a_constructor_that_forgets_super_still_routes() -> None:
    class Agent(Keeper):
        def __init__(self) -> None:
            self.calls = []

    assert await calls_of(Agent(), Cat()) == ["cat"]


async def test_registering_makes_all_message_types_known() -> None:
    @handles(Lion)
    class Agent(Keeper):
        pass

    runtime = RecordingRuntime()
    await Agent.register(runtime, "keeper", Agent)
    assert runtime.types == [Lion, Animal, Cat, Answer]
    assert Agent.message_types() == (Lion, Animal, Cat, Answer)
