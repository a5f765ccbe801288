"""Executors for the tests, and short ways to use them."""

from __future__ import annotations

import asyncio
import sys
import warnings
from pathlib import Path
from typing import Any

import psutil
import pytest

from callboard import CancellationToken
from callboard.code import CodeBlock, CommandLineCodeResult, ConfinementError, LocalCommandLineCodeExecutor
from callboard.code.process import Measure

LINUX = sys.platform == "linux"


def an_executor(work_dir: Path | None = None, **settings: Any) -> LocalCommandLineCodeExecutor:
    """An executor, without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return LocalCommandLineCodeExecutor(work_dir=work_dir, **{"timeout": 30, **settings})


async def confined(work_dir: Path, required: list[Measure], **settings: Any) -> LocalCommandLineCodeExecutor:
    """A started executor that requires confinement; skips the test where the system does not allow it."""
    executor = an_executor(work_dir, require_confinement=required, **settings)
    try:
        await executor.start()
    except ConfinementError as error:
        pytest.skip(str(error))
    return executor


async def run(
    executor: LocalCommandLineCodeExecutor,
    code: str,
    language: str = "python",
    token: CancellationToken | None = None,
) -> CommandLineCodeResult:
    """Runs one block."""
    return await executor.execute_code_blocks([CodeBlock(code, language)], token or CancellationToken())


async def started(
    executor: LocalCommandLineCodeExecutor, code: str, mark: Path, token: CancellationToken | None = None
) -> asyncio.Task[CommandLineCodeResult]:
    """A run in the background; returns when its code has made the file `mark`."""
    task = asyncio.create_task(run(executor, code, token=token))
    while not mark.exists():
        assert not task.done(), task.result()
        await asyncio.sleep(0.01)
    return task


def processes_with(text: str) -> list[psutil.Process]:
    """The processes whose command line holds a text, but for this one."""
    running = psutil.process_iter(["cmdline"])
    return [process for process in running if any(text in part for part in process.info["cmdline"] or ())]
