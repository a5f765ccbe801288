import logging
from dataclasses import dataclass
from typing import Any

import pytest

from callboard import CantHandleException, MessageContext, RoutedAgent, event, message_handler, rpc
from callboard.core.handlers import find_handler
from callboard.errors import DeclarationError

from .recording import context


@dataclass
class Visit:
    name: str


@dataclass
class Greeting:
    text: str


class Farewell(Greeting):
    pass


DECORATORS = [event, rpc, message_handler]


class Strict(RoutedAgent):
    @rpc
    async def greet(self, message: Visit, ctx: MessageContext) -> Greeting:
        """Greets."""
        return {"wrong": "wrong", "sub": Farewell("bye")}.get(message.name, Greeting(message.name))  # type: ignore[return-value]

    @event
    async def note(self, message: Visit, ctx: MessageContext) -> None:
        return message.name or None  # type: ignore[return-value]

    @message_handler
    async def anything(self, message: Greeting, ctx: MessageContext) -> Any:
        return message.text


class Lenient(RoutedAgent):
    @rpc(strict=False)
    async def greet(self, message: Visit, ctx: MessageContext) -> Greeting:
        return message  # type: ignore[return-value]

    @event(strict=False)
    async def note(self, message: Greeting, ctx: MessageContext) -> None:
        return "something"  # type: ignore[return-value]


def test_a_decorated_method_keeps_its_name_and_docstring() -> None:
    assert Strict.greet.__name__ == "greet"
    assert Strict.greet.__doc__ == "Greets."
    handler = find_handler(Strict.greet)
    assert handler is not None
    assert (handler.kind, handler.accepts, handler.produces) == ("rpc", (Visit,), (Greeting,))
    assert find_handler(Visit) is None
    assert find_handler(5) is None


async def test_a_handler_can_be_called_like_any_method() -> None:
    assert await Strict().greet(Visit("Ada"), context()) == Greeting("Ada")


async def test_a_strict_handler_refuses_a_wrong_message() -> None:
    with pytest.raises(
        CantHandleException, match=r"Message type Greeting not in target types Visit of Strict\.greet"
    ):
        await Strict().greet(Greeting("x"), context())  # type: ignore[arg-type]


async def test_a_strict_handler_refuses_a_wrong_result() -> None:
    with pytest.raises(ValueError, match="Return type str not in return types Greeting"):
        await Strict().greet(Visit("wrong"), context())
    with pytest.raises(ValueError, match="Return type str not in return types Greeting"):
        await Strict().on_message(Visit("wrong"), context(is_rpc=True))


async def test_a_strict_event_refuses_any_result() -> None:
    assert await Strict().on_message(Visit(""), context()) is None
    with pytest.raises(
        DeclarationError, match=r"Return type str not in return types None\. Nobody waits for"
    ):
        await Strict().on_message(Visit("x"), context())


async def test_a_result_of_a_subclass_is_a_result() -> None:
    assert await Strict().on_message(Visit("sub"), context(is_rpc=True)) == Farewell("bye")


async def test_a_return_annotation_of_any_checks_nothing() -> None:
    assert await Strict().on_message(Greeting("x"), context(is_rpc=True)) == "x"
    assert await Strict().on_message(Greeting("x"), context()) == "x"


async def test_a_lenient_handler_logs_and_passes_on(caplog: pytest.LogCaptureFixture) -> None:
    agent = Lenient()
    with caplog.at_level(logging.WARNING, logger="callboard.actors"):
        assert await agent.greet(Greeting("secret"), context()) == Greeting("secret")  # type: ignore[arg-type]
        assert await agent.on_message(Greeting("x"), context()) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "Message type Greeting not in target types Visit" in caplog.text
    assert "Return type str not in return types None" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("decorator", DECORATORS)
async def test_the_parameters_may_have_any_name(decorator: Any) -> None:
    heard: list[Visit] = []

    async def handle(me: Any, m: Visit, context: MessageContext) -> None:
        heard.append(m)

    declared = decorator(handle)
    found = find_handler(declared)
    assert found is not None
    assert found.accepts == (Visit,)
    await declared(None, Visit(name="Ada"), None)
    await declared(None, context=None, m=Visit(name="Bob"))
    assert [visit.name for visit in heard] == ["Ada", "Bob"]


@pytest.mark.parametrize("decorator", DECORATORS)
def test_the_parameter_must_be_annotated(decorator: Any) -> None:
    async def handle(self: Any, message, ctx: MessageContext) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(AssertionError, match="Message type not found: annotate `message`"):
        decorator(handle)


@pytest.mark.parametrize("decorator", DECORATORS)
def test_the_return_annotation_is_required(decorator: Any) -> None:
    async def handle(self: Any, message: Visit, ctx: MessageContext): ...  # type: ignore[no-untyped-def]

    with pytest.raises(AssertionError, match="return not found in function signature: add `-> None`"):
        decorator(handle)


@pytest.mark.parametrize("decorator", DECORATORS)
def test_there_must_be_three_parameters(decorator: Any) -> None:
    async def too_few(self: Any, message: Visit) -> None: ...
    async def too_many(self: Any, message: Visit, ctx: MessageContext, more: int) -> None: ...

    for function in (too_few, too_many):
        with pytest.raises(DeclarationError, match="it must have 3 parameters"):
            decorator(function)


@pytest.mark.parametrize("decorator", DECORATORS)
def test_the_annotations_must_be_classes(decorator: Any) -> None:
    async def number(self: Any, message: 5, ctx: MessageContext) -> None: ...  # type: ignore[valid-type]
    async def models(self: Any, message: list[Visit], ctx: MessageContext) -> None: ...
    async def returning(self: Any, message: Visit, ctx: MessageContext) -> list[Greeting]: ...  # type: ignore[empty-body]

    for function in (number, models):
        with pytest.raises(AssertionError, match=r"Message type not found|annotations can't be read"):
            decorator(function)
    with pytest.raises(AssertionError, match="Return type not found"):
        decorator(returning)


def test_a_handler_must_be_async() -> None:
    def plain(self: Any, message: Visit, ctx: MessageContext) -> None: ...

    async def yielding(self: Any, message: Visit, ctx: MessageContext) -> Any:
        yield message

    with pytest.raises(AssertionError, match="write `async def`"):
        event(plain)  # type: ignore[type-var]
    with pytest.raises(AssertionError, match="it yields"):
        event(yielding)


def test_match_must_be_an_ordinary_function() -> None:
    async def match(message: Visit, ctx: MessageContext) -> bool:
        return True

    async def handle(self: Any, message: Visit, ctx: MessageContext) -> None: ...

    with pytest.raises(AssertionError, match="match= must be an ordinary function"):
        event(match=match)(handle)  # type: ignore[arg-type]


def test_options_are_passed_by_name() -> None:
    with pytest.raises(AssertionError, match="decorates a method"):
        event(True)  # type: ignore[call-overload]


def test_the_sentence_names_the_handler() -> None:
    async def handle(self: Any, message: Visit, ctx: MessageContext): ...  # type: ignore[no-untyped-def]

    with pytest.raises(DeclarationError, match=r"test_the_sentence_names_the_handler.*handle: ") as raised:
        event(handle)
    assert raised.value.what.endswith("handle")
