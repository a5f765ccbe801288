"""How much code may use."""

from __future__ import annotations

from dataclasses import dataclass, fields

from callboard.errors import SettingValueError

__all__ = ["CodeLimits"]

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CodeLimits:
    """How much a code block may use. Each is a whole number above 0.

    Attributes:
        memory: Bytes of address space of each process, and of resident memory of all processes together.
        cpu_seconds: Processor time of each process; None: as long as the timeout.
        processes: Processes and threads at once.
        open_files: Open files of each process.
        file_size: Bytes of one file.
        disk: Bytes that may be added to the work folder.
        files: Files that may be added to the work folder.
        output: Bytes that may be written as output; a block that writes more is stopped.
        output_kept: Bytes of output that the result holds: half from the beginning and half from the end.

    Raises:
        SettingValueError: One of them is not above 0 (a ValueError).
    """

    memory: int = 2048 * MIB
    cpu_seconds: int | None = None
    processes: int = 128
    open_files: int = 256
    file_size: int = 256 * MIB
    disk: int = 1024 * MIB
    files: int = 20_000
    output: int = 64 * MIB
    output_kept: int = 64 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise SettingValueError(f"limits.{field.name}", repr(value), "a whole number above 0")
