"""The order desk: a person allows large refunds, at the console and on the bus."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from callboard.core.people import Question, asking_by
from callboard.messages import ToolCallExecutionEvent
from callboard.teams import TeamClient
from examples import order_desk
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Runtimes


@pytest.fixture(autouse=True)
def no_model_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    made = Runtimes(f"memory://order-desk-{os.urandom(4).hex()}")
    yield made
    await made.close()


def results(messages: object) -> list[str]:
    assert isinstance(messages, list)
    (event,) = [one for one in messages if isinstance(one, ToolCallExecutionEvent)]
    return [result.content for result in event.content]


async def test_at_the_console(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "yes"

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("sys.argv", ["order_desk"])
    await order_desk.main()
    assert '{"order": 7, "cents": 8900}' in asked[0]
    assert "Your 89.00 Euro are on their way." in capsys.readouterr().out


async def test_small_refunds_are_not_asked_for() -> None:
    def less(question: Question) -> str:
        return '{"order": 7, "cents": 500}'

    with asking_by(less):
        result = await order_desk.make_team().run(task=order_desk.TASK)
    assert results(list(result.messages))[1] == "Order 7: 5.00 Euro are on their way."
    assert not order_desk.is_large({"cents": order_desk.SMALL})


async def test_on_the_bus(runtimes: Runtimes) -> None:
    runtime = runtimes.of(order_desk.app)
    async with runtime:
        runtime.start()
        client = TeamClient(runtime, "orders", "customer-1")
        running = asyncio.ensure_future(client.run(task=order_desk.TASK))
        await eventually(client.questions)
        (question,) = await client.questions()
        await client.answer(question.id, "no: a photo first", by="ada")
        said = results(list((await running).messages))
    assert said[1] == "refund was not called: a person has not allowed it: a photo first"
