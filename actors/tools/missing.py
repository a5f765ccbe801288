"""The error for a package that is not installed."""

from __future__ import annotations

from .errors import ToolError


class MissingPackageError(ToolError, ImportError):
    """A package that comes with an extra is not installed.

    Attributes:
        package: The package.
        extra: The extra of callboard that brings it.
    """

    permanent = True

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.package} is not installed: pip install 'callboard[{self.extra}]'"
