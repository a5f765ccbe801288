"""docs/api.md: every public name with its signature and the first sentence about it."""

from __future__ import annotations

import importlib
import inspect
import re
from enum import EnumType
from types import ModuleType
from typing import Any, Final

MODULES: Final = (
    "callboard",
    "callboard.agents",
    "callboard.teams",
    "callboard.groupchat",
    "callboard.runs",
    "callboard.conditions",
    "callboard.dispatch",
    "callboard.roles",
    "callboard.messages",
    "callboard.ui",
    "callboard.base",
    "callboard.models",
    "callboard.tools",
    "callboard.code",
    "callboard.memory",
    "callboard.memory_service",
    "callboard.broker",
    "callboard.testing",
)
HEAD: Final = """\
# Public names

<!-- Made by scripts/reference from the code; edit the docstrings there. -->

What can be imported, with what a class or function takes and the first sentence of its docstring. Settings are in
[settings](settings.md), words in the [glossary](glossary.md). Everything else in the package may change without notice.
"""
# What makes signatures longer, or another one in each run, without saying more.
NOISE: Final = (
    (re.compile(r"ForwardRef\('([^']*)'\)"), r"\1"),  # what a named tuple has
    (re.compile(r"(: |-> )'([^']*)'"), r"\1\2"),  # annotations are text here; as code they have no quotes
    (re.compile(r" -> None$"), ""),
    (re.compile(r"\((?:self, )?\*args, \*\*kwargs\)"), ""),  # of a protocol
    (re.compile(r"\btyping\.Annotated\[([^,]+), FieldInfo\([^)]*\)\]"), r"\1"),
    (re.compile(r"\b(?:callboard|collections|typing|pathlib)\.(?:\w+\.)*(?=\w)"), ""),
    (re.compile(r" = <factory>"), " = ..."),
    (re.compile(r"<(?:built-in |bound )?(?:function|method) (\w+)[^>]*>"), r"\1"),
    (re.compile(r"= (\w+)\(\w+=.*?\)(?=[,)] )"), r"= \1()"),  # a default that is made of other defaults
    (re.compile(r"<object object at 0x\w+>"), "..."),  # a default that stands for: not given
    (re.compile(r"\s+"), " "),
)
MANY: Final = 12  # parameters; a signature with more of them is no help


def page() -> str:
    """The page as Markdown."""
    return HEAD + "".join(_chapter(importlib.import_module(name)) for name in MODULES)


def _chapter(module: ModuleType) -> str:
    names = sorted(module.__all__, key=str.lower)
    lines = [f"- `{_shown(name, getattr(module, name))}`{_about(getattr(module, name))}\n" for name in names]
    return f"\n## `{module.__name__}`\n\n{_first_sentence(module.__doc__)}\n\n" + "".join(lines)


def _shown(name: str, value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isroutine(value)) or isinstance(value, EnumType):
        return name
    try:
        signature = inspect.signature(value)
    except ValueError:  # a class made elsewhere, whose signature Python does not know
        return name
    if len(signature.parameters) > MANY:
        return f"{name}(...)"
    text = str(signature)
    for pattern, instead in NOISE:
        text = pattern.sub(instead, text)
    return name + text


def _about(value: Any) -> str:
    """The sentence of the docstring; values have none of their own."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    sentence = _first_sentence(inspect.getdoc(value) if "__doc__" not in vars(value) else value.__doc__)
    return f": {sentence}" if sentence else ""


def _first_sentence(doc: str | None) -> str:
    paragraph = " ".join((doc or "").strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]
