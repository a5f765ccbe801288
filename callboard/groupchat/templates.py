"""What a model is told that chooses the next speaker."""

from __future__ import annotations

from typing import Final

MESSAGE: Final = (
    "This is a role play game with the following roles:\n{roles}\n\n"
    "Read the conversation below, and select from {agentlist} the role that plays next. Return the name of the role, "
    "and nothing else."
)
PROMPT: Final = (
    "Read the conversation above, and select from {agentlist} the role that plays next. Return the name of the role, "
    "and nothing else."
)
_RULES: Final = """\
1. Where the text speaks of itself as a speaker, such as "As the...", it is that speaker.
2. Where it names the "next" speaker, it is that one.
3. Else it is the speaker who is named first."""
MULTIPLE: Final = f"""\
Your answer names more than one speaker, and one is needed. These rules say which, the first that fits:
{_RULES}
Upper and lower case matter, and names are not shortened or changed.
Answer with the name of the speaker, without a reason."""
NONE: Final = f"""\
Your answer names no speaker. These rules say which it is, the first that fits:
{_RULES}
Upper and lower case matter, and names are not shortened or changed. The names that count are {{agentlist}}.
Answer with the name of the speaker, without a reason."""
INTRODUCTION: Final = "Hello, everybody. These are the members of this group, and what each of them does:"
