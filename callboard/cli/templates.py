"""What `callboard init` can write: each template is a set of files, and what to try first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from .counter_template import COUNTER
from .shipped import examples_folder

GITIGNORE: Final = """.callboard/
__pycache__/
"""


@dataclass(frozen=True, slots=True)
class Template:
    """An app to begin with.

    Attributes:
        files: The name of the app -> the text of each file, by its name.
        first: What to try first while `callboard up app:app` runs.
    """

    files: Callable[[str], Mapping[str, str]]
    first: str


def counter(name: str) -> Mapping[str, str]:
    """The smallest app: a counter with a state."""
    return {file: text.format(name=name) for file, text in COUNTER.items()}


def assistant(name: str) -> Mapping[str, str]:
    """The example of this name: an agent that thinks, with a conversation, a tool and long-term memory."""
    folder = examples_folder() / "assistant"
    texts = {path.name: path.read_text(encoding="utf-8") for path in _sources(folder)}
    texts["app.py"] = texts["app.py"].replace('App("assistant")', f'App("{name}")')
    texts["README.md"] = texts["README.md"].replace("# assistant\n", f"# {name}\n", 1)
    return texts


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".py", ".md", ".ini"))


class TemplateName(StrEnum):
    """What `--template` takes."""

    COUNTER = "counter"
    ASSISTANT = "assistant"


TEMPLATES: Final[Mapping[TemplateName, Template]] = {
    TemplateName.COUNTER: Template(counter, "callboard publish app:app visits Visit name=Ada"),
    TemplateName.ASSISTANT: Template(
        assistant, 'callboard ask app:app assistant/ada Question text="note the milk is out"'
    ),
}
"""The templates by their names. To add one, write its function, its name and its line."""
