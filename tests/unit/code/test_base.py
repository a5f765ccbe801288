"""The interface of code executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError

import pytest

from callboard import CancellationToken
from callboard.code import CodeBlock, CodeExecutor, CodeResult, CommandLineCodeResult


class Recorded(CodeExecutor):
    def __init__(self) -> None:
        self.calls: list[str] = []

    async def execute_code_blocks(
        self, code_blocks: Sequence[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        self.calls.append("execute")
        return CodeResult(0, "".join(block.code for block in code_blocks))

    async def start(self) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")

    async def restart(self) -> None:
        self.calls.append("restart")


async def test_a_block_starts_an_executor_and_stops_it() -> None:
    async with Recorded() as executor:
        result = await executor.execute_code_blocks([CodeBlock("a", "python")], CancellationToken())
    assert (result.exit_code, result.output) == (0, "a")
    assert executor.calls == ["start", "execute", "stop"]


async def test_it_is_stopped_after_an_error_too_and_the_error_goes_on() -> None:
    executor = Recorded()
    with pytest.raises(ZeroDivisionError):
        async with executor:
            raise ZeroDivisionError
    assert executor.calls == ["start", "stop"]


def test_blocks_and_results_are_values() -> None:
    assert CodeBlock("a", "sh") == CodeBlock(code="a", language="sh")
    assert CommandLineCodeResult(exit_code=0, output="", code_file="a.py").code_file == "a.py"
    with pytest.raises(FrozenInstanceError):
        CodeResult(0, "").output = "x"  # type: ignore[misc]
