"""Files that `callboard init` writes, and the place of the examples that come along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

SHIPPED: Final = "demo-files"
"""The folder in callboard/cli where a wheel has its copy of some examples. Not a name that can be imported."""


def examples_folder() -> Path:
    """The folder with the examples: examples/ of a checkout, else the copy that comes with the wheel."""
    cli = Path(__file__).resolve().parent
    shipped = cli / SHIPPED
    return shipped if shipped.is_dir() else cli.parents[1] / "examples"


APP = '''"""A small Callboard app: it counts visits, one counter per place."""

from pydantic import BaseModel

from callboard import App, MessageContext, Request, RoutedAgent, event, rpc


class Visit(BaseModel):
    """A visitor came."""

    name: str


class Count(BaseModel):
    """The state of a counter, and its answer."""

    total: int = 0
    last: str | None = None


class HowMany(BaseModel, Request[Count]):
    """Asks a counter for its total."""


app = App("{name}")


@app.agent("counter", topics=["visits"])
class Counter(RoutedAgent[Count]):
    """One counter per place; its state is stored with every message that it handles."""

    @event
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        self.state.total += 1
        self.state.last = message.name

    @rpc
    async def on_how_many(self, message: HowMany, ctx: MessageContext) -> Count:
        return Count(total=self.state.total, last=self.state.last)
'''

README = """# {name}

An app made of durable actors on Redis, see `app.py`. In one terminal, in this folder:

    callboard up app:app

In another:

    callboard publish app:app visits Visit name=Ada
    callboard publish app:app visits Visit name=Grace --key museum
    callboard ask app:app counter/default HowMany
    callboard ask app:app counter/museum HowMany
    callboard status app:app
    callboard tail app:app --from-start --limit 2

Messages and states are in `.callboard/`, kept by a server that callboard starts by itself; with
`CALLBOARD_URL` set, such as `redis://localhost:6379`, they are in that server instead. Stop `up` with Ctrl-C,
publish meanwhile, start it again: nothing is lost and nothing is counted twice.

How it looks in Redis:

    callboard server cli XINFO GROUPS 'callboard:{{{name}}}:topic:visits'
    callboard server cli HGETALL 'callboard:{{{name}}}:state:counter:default'
"""

COUNTER: Final[Mapping[str, str]] = {"app.py": APP, "README.md": README}

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
    """Names of templates, as `--template` takes them."""

    COUNTER = "counter"
    ASSISTANT = "assistant"


TEMPLATES: Final[Mapping[TemplateName, Template]] = {
    TemplateName.COUNTER: Template(counter, "callboard publish app:app visits Visit name=Ada"),
    TemplateName.ASSISTANT: Template(
        assistant, 'callboard ask app:app assistant/ada Question text="note the milk is out"'
    ),
}
"""The templates by their names. To add one, write its function, its name and its line."""
