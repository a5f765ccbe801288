"""The real package `autogen_core`. The only module that imports it.

Its classes are typed as Any: type checkers then say the same of this code whether the package is installed or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from callboard.foundation.errors import MissingPackageError

try:
    core: Final[Any] = import_module("autogen_core")
    errors: Final[Any] = import_module("autogen_core.exceptions")
except ModuleNotFoundError:
    raise MissingPackageError("autogen_core", "autogen") from None
