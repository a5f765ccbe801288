"""The local executor as plain data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, Field

from .confinement import Measure
from .limits import CodeLimits

__all__ = ["LocalCommandLineCodeExecutorConfig"]


class LocalCommandLineCodeExecutorConfig(BaseModel):
    """What a `LocalCommandLineCodeExecutor` is made with; what AutoGen's has not comes last.

    Attributes:
        timeout: Seconds for each block.
        work_dir: The work folder; None: a temporary one.
        functions_module: The name of the functions' module.
        cleanup_temp_files: Delete the files of blocks when they have run.
        limits: The limits.
        network: Code may use the network.
        readable: Files and folders that code may read.
        require_confinement: What must be in force.
    """

    timeout: float = 60
    work_dir: str | None = None
    functions_module: str = "functions"
    cleanup_temp_files: bool = True
    limits: CodeLimits = Field(default_factory=CodeLimits)
    network: bool = False
    readable: list[str] = []
    require_confinement: bool | Sequence[Measure] = False


def warn_of_loss(names: Iterable[str]) -> None:
    """Say which settings a configuration does not hold."""
    lost = ", ".join(names)
    if lost:
        warnings.warn(
            f"The configuration of a code executor does not hold: {lost}", UserWarning, stacklevel=3
        )
