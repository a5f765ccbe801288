"""Examining a server and a namespace: what `callboard doctor` prints.

A check is a module of `checks`: its docstring says what it looks at, its `examine(subject)` returns findings. Adding one
is adding a file there.
"""

from .examination import all_checks, examine, unreachable
from .finding import Finding, Level, Report

__all__ = ["Finding", "Level", "Report", "all_checks", "examine", "unreachable"]
