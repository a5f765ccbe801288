"""Code blocks in texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from callboard.code import CodeBlock


def code_blocks_in(text: str, languages: Sequence[str]) -> list[CodeBlock]:
    """The blocks between Markdown fences that name one of the languages; upper and lower case do not differ."""
    names = "|".join(re.escape(language) for language in languages)
    fence = re.compile(rf"```[ \t]*({names})[ \t]*\r?\n(.*?)```", re.IGNORECASE | re.DOTALL)
    return [CodeBlock(code=code, language=language) for language, code in fence.findall(text)]


def fenced(blocks: Sequence[CodeBlock]) -> str:
    """The blocks as Markdown."""
    return "\n\n".join(f"```{block.language}\n{block.code}\n```" for block in blocks)
