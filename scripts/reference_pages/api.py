"""docs/api.md: every public name with its signature and the first sentence about it."""

from __future__ import annotations

import importlib
import inspect
import re
from enum import EnumType
from typing import Any, Final

from .public import FIRST, MODULES, SPECIAL, UNLOADED, about_unloaded, public_names

HEAD: Final = """\
# Public names

For those who look for an import: every public name with its parameters and the first sentence of its docstring.

<!-- Made by scripts/reference from the code and from scripts/reference_pages/public.py; edit the docstrings there. -->

Settings are in [settings](settings.md), words in the [glossary](glossary.md). Each package begins with the names that a
newcomer needs. Everything that is not listed here may change without notice.
"""
SPECIAL_HEAD: Final = """
# For special purposes

Modules of which only these names are public: errors to catch, contexts, parts of a memory of your own, and the views that
the command line has of a namespace.
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
SET: Final = re.compile(r"frozenset\(\{([^{}]*)\}\)")
MANY: Final = 12  # parameters; a signature with more of them is no help


def page() -> str:
    """The page as Markdown."""
    chapters = [_chapter(name) for name in MODULES]
    special = [*(_chapter(name) for name in SPECIAL), *(_unloaded_chapter(name) for name in UNLOADED)]
    return "".join([HEAD, *chapters, SPECIAL_HEAD, *special])


def _chapter(module: str) -> str:
    loaded = importlib.import_module(module)
    values = [(name, getattr(loaded, name)) for name in sorted(public_names(module), key=str.lower)]
    lines = [f"- `{_shown(name, value)}`{_about(value)}\n" for name, value in values]
    return _head(module, loaded.__doc__) + "".join(lines)


def _unloaded_chapter(module: str) -> str:
    about, docs = about_unloaded(module)
    lines = [f"- `{name}`: {_first_sentence(docs.get(name))}\n" for name in public_names(module)]
    return _head(module, about) + "".join(lines)


def _head(module: str, about: str | None) -> str:
    first = ", ".join(f"`{name}`" for name in FIRST.get(module, ()))
    return f"\n## `{module}`\n\n{_first_sentence(about)}\n\n" + (f"**First:** {first}\n\n" if first else "")


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
    return name + SET.sub(_sorted, text)


def _sorted(found: re.Match[str]) -> str:
    """A set of texts, which has another order in each run."""
    return f"frozenset({{{', '.join(sorted(found[1].split(', ')))}}})"


def _about(value: Any) -> str:
    """The sentence of the docstring; values have none of their own."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    sentence = _first_sentence(inspect.getdoc(value) if "__doc__" not in vars(value) else value.__doc__)
    return f": {sentence}" if sentence else ""


def _first_sentence(doc: str | None) -> str:
    paragraph = " ".join((doc or "").strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]
