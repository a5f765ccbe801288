"""Which agents a text mentions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .agent import Agent
from .content import text_of


def mentioned_agents(content: Any, agents: Sequence[Agent]) -> dict[str, int]:
    """How often a text mentions each of these agents.

    A name counts where it stands as a word of its own, in its own case; an underscore in it may be written as a blank,
    or behind a backslash.

    Args:
        content: A text, the content of a message, or a message; None: nothing.
        agents: Whose names are looked for.

    Returns:
        The number of mentions by name, without agents that are not mentioned.
    """
    text = text_of(content["content"] if isinstance(content, Mapping) else content)
    counts = {agent.name: len(_pattern(agent.name).findall(text)) for agent in agents}
    return {name: count for name, count in counts.items() if count}


def _pattern(name: str) -> re.Pattern[str]:
    spellings = {name, name.replace("_", " "), name.replace("_", r"\_")}
    words = "|".join(re.escape(spelling) for spelling in sorted(spellings))
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)")
