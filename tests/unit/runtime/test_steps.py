"""Steps that are told apart by their numbers."""

from __future__ import annotations

import pytest

from callboard import AgentId, CancellationToken, MessageContext
from callboard.broker.envelope import Envelope
from callboard.runtime.execution import Execution, current
from callboard.runtime.steps import NumberedStep, running_context

A = AgentId("a", "b")


def context_of(message_id: str = "m", scope: str = "") -> MessageContext:
    return MessageContext(None, None, False, CancellationToken(), message_id, scope=scope)


@pytest.fixture
def execution() -> Execution:
    return Execution(A, Envelope(id="m", type="Note", key="b", body=b"", sender=None, at=0), context_of())


async def numbers(execution: Execution, *begun: tuple[str, MessageContext | None]) -> list[int]:
    """Of the steps that a handler begins, in order."""
    found: list[int] = []

    async def handler(message: object, ctx: MessageContext) -> None:
        steps = [NumberedStep.begin(name, context) for name, context in begun]
        found.extend(step.number for step in steps if step is not None)

    await execution.run(handler, None)
    return found


async def test_equal_steps_are_numbered_in_their_order(execution: Execution) -> None:
    begun = ("x", None), ("y", None), ("x", None), ("x", execution.context)
    assert await numbers(execution, *begun) == [1, 1, 2, 3]


async def test_steps_of_a_context_of_their_own_are_counted_apart(execution: Execution) -> None:
    apart = context_of(scope="call")
    assert await numbers(execution, ("x", None), ("x", apart), ("x", apart)) == [1, 1, 2]


async def test_a_step_of_another_message_is_the_first_of_its_name(execution: Execution) -> None:
    other = context_of("other")
    assert await numbers(execution, ("x", other), ("x", other)) == [1, 1]


async def test_a_step_that_failed_gives_its_number_back(execution: Execution) -> None:
    async def fails() -> None:
        raise LookupError

    async def handler(message: object, ctx: MessageContext) -> str:
        step = NumberedStep.begin("x")
        assert step is not None
        with pytest.raises(LookupError):
            await step.run(fails)
        again = NumberedStep.begin("x")
        assert again is not None
        return again.full_name

    assert await execution.run(handler, None) == "x:1"


async def test_there_are_none_outside_of_a_handler(execution: Execution) -> None:
    assert (NumberedStep.begin("x"), running_context()) == (None, None)
    execution.is_over = True
    token = current.set(execution)
    try:
        assert (NumberedStep.begin("x"), running_context()) == (None, None)
    finally:
        current.reset(token)
