"""Blocks of code, their results, their errors, and the interface of executors.

```
ActorError
└── CodeError
    ├── ConfinementError    the system does not allow the confinement that is required (RuntimeError)
    └── FunctionsError      functions for the code can't be used: their source, packages or imports (ValueError)
```

Names and behaviour are those of `autogen_core.code_executor`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from callboard.core.cancellation import CancellationToken
from callboard.foundation import ActorError
from callboard.foundation.component import ComponentBase


class CodeError(ActorError):
    """The root of everything that code executors raise."""


class ConfinementError(CodeError, RuntimeError):
    """Code was to be run only in confinement, and this system does not allow it."""

    template = (
        "Code can't be confined as require_confinement asks for; not in force here: {listed}. In a container the "
        "system calls `unshare`, `landlock_create_ruleset` and `seccomp` must be allowed; otherwise run code elsewhere."
    )
    permanent = True

    missing: Sequence[str]  # names of fields of `Confinement`

    @property
    def listed(self) -> str:
        """The missing measures, as text."""
        return ", ".join(self.missing)


class FunctionsError(CodeError, ValueError):
    """Functions that the code is to find in a module can't be used."""

    template = "{text}"

    text: str


@dataclass(frozen=True)
class CodeBlock:
    """A piece of code, as a message holds it.

    Attributes:
        code: The code.
        language: What it is written in, as behind the fence of a Markdown block: "python", "sh", ...
    """

    code: str
    language: str


@dataclass(frozen=True)
class CodeResult:
    """Exit code and output of code blocks.

    Attributes:
        exit_code: 0 when all blocks ran to their end, else the exit code of the block that did not. 124 after a
            timeout, 125 after a cancellation, 128 + N after signal N.
        output: What the blocks wrote, errors included, and why a block was stopped.
    """

    exit_code: int
    output: str


@dataclass(frozen=True)
class CommandLineCodeResult(CodeResult):
    """The result of an executor that writes each block to a file and runs that.

    Attributes:
        code_file: Path of the first block's file; None where none was written.
    """

    code_file: str | None = None


class CodeExecutor(ABC, ComponentBase[BaseModel]):
    """Runs code blocks. An `async with` block starts it and stops it."""

    component_type = "code_executor"

    @abstractmethod
    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Run blocks one after the other, up to the first that fails.

        Args:
            code_blocks: The blocks, in order.
            cancellation_token: Stops the block that runs, and those after it.

        Returns:
            What they wrote. A block that fails, is stopped, or is in a language that can't be run is a result too,
            with an exit code other than 0: the model that wrote it may read why.
        """

    @abstractmethod
    async def start(self) -> None:
        """Make ready what running code needs."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop what still runs, and release what `start` made."""

    @abstractmethod
    async def restart(self) -> None:
        """Stop what still runs and begin anew; called when the agent that uses it is reset."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
