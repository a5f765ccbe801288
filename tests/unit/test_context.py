import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard import AgentId, CancellationToken, MessageContext, MessageHandlerContext, TopicId
from callboard.errors import MisuseError

from .recording import context


def test_the_fields_are_those_of_autogen_and_in_its_order() -> None:
    token = CancellationToken()
    ctx = MessageContext(AgentId("a", "k"), TopicId("t", "s"), True, token, "id")
    assert (ctx.sender, ctx.topic_id, ctx.is_rpc, ctx.cancellation_token, ctx.message_id) == (
        AgentId("a", "k"),
        TopicId("t", "s"),
        True,
        token,
        "id",
    )
    assert ctx.attempt == 1
    assert ctx.deadline is None
    assert not hasattr(ctx, "__dict__")


async def test_once_without_a_recorder_runs_the_function() -> None:
    async def double(number: int, *, plus: int) -> int:
        return 2 * number + plus

    assert await context().once("double", double, 3, plus=1) == 7


async def test_once_returns_what_was_recorded() -> None:
    recorded: dict[str, Any] = {}
    runs: list[int] = []

    async def record(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name not in recorded:
            recorded[name] = await call()
        return recorded[name]

    async def pay(amount: int) -> int:
        runs.append(amount)
        return amount

    ctx = context()
    ctx.recorder = record  # type: ignore[assignment]
    assert await ctx.once("pay", pay, 5) == 5
    assert await ctx.once("pay", pay, 6) == 5
    assert runs == [5]


def test_there_is_no_current_agent_outside_of_handlers() -> None:
    with pytest.raises(RuntimeError, match="must be called within a message handler"):
        MessageHandlerContext.agent_id()


def test_the_current_agent_lasts_as_long_as_its_block() -> None:
    with MessageHandlerContext.populate_context(AgentId("a", "1")):
        with MessageHandlerContext.populate_context(AgentId("b", "2")):
            assert MessageHandlerContext.agent_id() == AgentId("b", "2")
        assert MessageHandlerContext.agent_id() == AgentId("a", "1")
    with pytest.raises(MisuseError):
        MessageHandlerContext.agent_id()


async def test_handlers_at_the_same_time_see_their_own_agent() -> None:
    async def handle(key: str) -> str:
        with MessageHandlerContext.populate_context(AgentId("a", key)):
            await asyncio.sleep(0)
            return MessageHandlerContext.agent_id().key

    keys = [str(number) for number in range(5)]
    assert await asyncio.gather(*map(handle, keys)) == keys


def test_the_class_can_not_be_instantiated() -> None:
    with pytest.raises(MisuseError, match="MessageHandlerContext cannot be instantiated"):
        MessageHandlerContext()
    assert issubclass(MisuseError, RuntimeError)


def test_an_idempotency_key_is_the_same_in_every_attempt() -> None:
    def key(name: str = "pay", *, scope: str = "shop/till", message_id: str = "m1", attempt: int = 1) -> str:
        ctx = MessageContext(None, None, False, CancellationToken(), message_id, attempt)
        ctx.scope = scope
        return ctx.idempotency_key(name)

    assert key() == key(attempt=2) == "f0967e7c2788814f021cc29180011c14"
    others = {key("refund"), key(scope="shop/audit"), key(scope="other/till"), key(message_id="m2")}
    assert len(others | {key()}) == 5
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in others)
    assert key("\ud800") != key("?")
