"""Installing what functions need into a folder of the executor."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Iterable, Sequence
from pathlib import Path

from callboard.cancellation import CancellationToken

from .errors import FunctionsError

#: Asks an interpreter which of some packages it has; a requirement that is more than a name counts as missing.
MISSING = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        print(name)
"""


async def install(
    python: str, packages: Sequence[str], target: Path, timeout: float, tokens: Iterable[CancellationToken]
) -> None:
    """Install the packages that an interpreter does not have yet, unconfined, as the user asked for them.

    AutoGen installs them into the interpreter that the program itself runs in; here they go to a folder of their own.

    Args:
        python: The interpreter.
        packages: Requirements as pip takes them.
        target: The folder.
        timeout: Seconds.
        tokens: Each stops it.

    Raises:
        FunctionsError: pip failed, was cancelled or took too long (a ValueError).
    """
    missing = (await _run([python, "-c", MISSING, *packages], timeout, tokens)).split("\n")
    wanted = [name for name in packages if name in missing]
    if wanted:
        await _run(
            [python, "-m", "pip", "install", "-q", "--target", str(target), "--", *wanted], timeout, tokens
        )


async def _run(command: list[str], timeout: float, tokens: Iterable[CancellationToken]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    answer = asyncio.ensure_future(process.communicate())
    for token in tokens:
        token.link_future(answer)
    try:
        async with asyncio.timeout(timeout):
            output = (await answer)[0].decode("utf-8", "replace")
    except TimeoutError as error:
        raise FunctionsError("Pip install timed out") from error
    except asyncio.CancelledError:
        if not any(token.is_cancelled() for token in tokens):
            raise
        raise FunctionsError("Pip install was cancelled") from None
    finally:
        await _end(process)
    if process.returncode != 0:
        raise FunctionsError(f"Pip install failed. {output}")
    return output


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()
