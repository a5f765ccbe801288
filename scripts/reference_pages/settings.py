"""docs/settings.md: every setting with its environment variable, default, unit and meaning."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from callboard import AgentSettings
from callboard.broker import BrokerSettings
from callboard.broker.settings import PREFIX, described_fields
from callboard.models import ModelSettings
from callboard.tools import ResultLimits

HEAD = """\
# Settings

For those who tune an app: every setting with its environment variable, default, unit and meaning.

<!-- Made by scripts/reference from the code; edit the descriptions there. -->

"""
BROKER = """\
## Of a process: `BrokerSettings`

Given to a runtime, `RedisAgentRuntime(settings=BrokerSettings(lease=10))`, to an app, `App("shop", settings=...)`, or in
the environment; what is given in code wins. `CALLBOARD_URL` comes before `REDIS_URL`. Sizes in bytes may have a unit, in
the environment and in code: `500MB` (10^6 bytes), `64MiB` (2^20 bytes). Switches are `1` or `0`.

"""
AGENT = """
## Of an agent type: `AgentSettings`

Given where the type is declared, such as `App.agent("writer", max_attempts=5)`.

"""
MODEL = """
## Of models: `ModelSettings`

Given to a client of a model; see [models](models.md).

"""
TOOLS = """
## Of the results of tools: `ResultLimits`

Given to a workbench as `limits=`; see [tools](tools.md#large-results).

"""


def page() -> str:
    """The page as Markdown."""
    broker = [
        (one.name, f"`{PREFIX}{one.name.upper()}`", _shown(one.default), one.unit, one.meaning)
        for one in described_fields(BrokerSettings)
    ]
    head = ("setting", "environment", "default", "unit", "meaning")
    parts = [HEAD, BROKER, _table(head, broker), AGENT, _plain(AgentSettings), MODEL, _plain(ModelSettings)]
    parts += [TOOLS, _plain(ResultLimits)]
    return "".join(parts)


def _plain(settings: type[Any]) -> str:
    meanings = _attributes(inspect.getdoc(settings) or "")
    instance = settings()
    rows = [
        (spec.name, _shown(getattr(instance, spec.name)), meanings[spec.name]) for spec in fields(settings)
    ]
    return _table(("setting", "default", "meaning"), rows)


def _attributes(doc: str) -> dict[str, str]:
    """The meaning of each attribute, by Google-style documentation."""
    section = doc.partition("Attributes:\n")[2].partition("\n\n")[0]
    items = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", section, re.MULTILINE)
    return {name: _sentence(" ".join(text.split())) for name, text in items}


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"`{value!r}`" if value else f"`{value}`"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head)]
    lines += [(f"`{name}`", *(cell.replace("|", "\\|") for cell in rest)) for name, *rest in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
