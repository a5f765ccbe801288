from typing import Any

import pytest

from callboard import (
    AgentId,
    DefaultInterventionHandler,
    DropMessage,
    MessageContext,
    MessageDroppedException,
)
from callboard.core.intervention import (
    InterventionHandler,
    intercept_publish,
    intercept_response,
    intercept_send,
)

from .recording import context

TO, FROM = AgentId("to", "1"), AgentId("from", "1")


class Appending(DefaultInterventionHandler):
    def __init__(self, letter: str) -> None:
        self.letter = letter

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        return message + self.letter

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        return message + self.letter

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        return message + self.letter


class Answering(DefaultInterventionHandler):
    """Answers everything with the same."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        return self.answer

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        return self.answer

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        return self.answer


async def send(*handlers: InterventionHandler, message: Any = "x") -> Any:
    return await intercept_send(handlers, message, context(is_rpc=True), TO)


async def publish(*handlers: InterventionHandler, message: Any = "x") -> Any:
    return await intercept_publish(handlers, message, context())


async def respond(*handlers: InterventionHandler, message: Any = "x") -> Any:
    return await intercept_response(handlers, message, TO, FROM)


WAYS = [send, publish, respond]


@pytest.mark.parametrize("way", WAYS)
async def test_without_handlers_nothing_changes(way: Any) -> None:
    assert await way() == "x"
    assert await way(DefaultInterventionHandler()) == "x"


@pytest.mark.parametrize("way", WAYS)
async def test_each_handler_sees_what_the_one_before_it_returned(way: Any) -> None:
    assert await way(Appending("A"), DefaultInterventionHandler(), Appending("B")) == "xAB"


@pytest.mark.parametrize("drop", [DropMessage, DropMessage()])
async def test_dropping_ends_the_chain(drop: Any) -> None:
    seen: list[Any] = []

    class Watching(DefaultInterventionHandler):
        async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
            seen.append(message)
            return message

    with pytest.raises(MessageDroppedException, match="Answering dropped the request to to/1"):
        await send(Answering(drop), Watching())
    with pytest.raises(MessageDroppedException, match="Answering dropped the response of to/1"):
        await respond(Answering(drop))
    assert await publish(Answering(drop)) is None
    assert seen == []


@pytest.mark.parametrize("way", WAYS)
async def test_returning_none_is_no_change_with_a_warning(way: Any) -> None:
    with pytest.warns(RuntimeWarning, match="returned None, which is treated as no change"):
        assert await way(Answering(None), Appending("B")) == "xB"


@pytest.mark.parametrize("way", WAYS)
async def test_a_message_that_is_none_passes_without_a_warning(way: Any) -> None:
    assert await way(DefaultInterventionHandler(), message=None) is None


@pytest.mark.parametrize("way", WAYS)
async def test_false_values_are_messages(way: Any) -> None:
    assert await way(Answering("")) == ""
    assert await way(Answering(0)) == 0


async def test_handlers_learn_the_circumstances() -> None:
    seen: list[Any] = []

    class Watching(DefaultInterventionHandler):
        async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
            seen.append((message, message_context.is_rpc, recipient))
            return message

        async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
            seen.append((message, sender, recipient))
            return message

    await send(Watching())
    await respond(Watching())
    assert seen == [("x", True, TO), ("x", TO, FROM)]


@pytest.mark.parametrize("way", WAYS)
async def test_an_error_of_a_handler_reaches_the_caller(way: Any) -> None:
    with pytest.raises(TypeError):
        await way(Appending("A"), message=5)
