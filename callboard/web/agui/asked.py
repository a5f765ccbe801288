"""What a page asks for: the input of a run, read as a task, or as answers to what a run waits for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import RunAgentInput, ToolMessage, UserMessage

from callboard.messages.chat import TextMessage
from callboard.teams.loop import SAID_BEFORE
from callboard.web.problems import Problem

RUN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
LONGEST_ID: Final = 200  # characters of a thread or a message
SAID: Final = frozenset({"system", "developer", "user", "assistant"})
BEFORE: Final = "What was said before, and is known:"
BEFORE_ID: Final = "said-before-"
"""How the id of a message begins that tells a team what was said before: no page is shown it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to what a run waits for.

    Attributes:
        question: Its id.
        value: A text as it was typed, or data.
        is_given: Whether there is one; else the page has given up.
    """

    question: str
    value: Any
    is_given: bool = True


def answers_in(asked: RunAgentInput) -> list[Answer]:
    """The answers: what is resumed, or else the results of the page's tools, which are the last messages."""
    if asked.resume:
        return [Answer(one.interrupt_id, one.payload, one.status == "resolved") for one in asked.resume]
    results: list[Answer] = []
    for message in reversed(asked.messages):
        if not isinstance(message, ToolMessage):
            break
        results.append(Answer(message.tool_call_id, message.error or _text(message.content)))
    return results[::-1]


def task_in(asked: RunAgentInput, is_fresh: bool) -> list[TextMessage]:
    """The task: the last message, and before it what a conversation does not know yet.

    Args:
        asked: What the page asks for.
        is_fresh: Whether nothing was said in the conversation yet.

    Raises:
        Problem: The last message is no text of a user.
    """
    last = asked.messages[-1] if asked.messages else None
    text = _text(last.content) if isinstance(last, UserMessage) else ""
    if last is None or not text:
        raise Problem(422, "the last message is the task: a text of the role user")
    told = [f"context: {one.description}: {one.value}" for one in asked.context or ()]
    if is_fresh:
        said = [(str(one.role), one.content) for one in asked.messages[:-1] if one.role in SAID]
        told += [f"{role}: {_text(content)}" for role, content in said if content]
    name = last.id[:LONGEST_ID] or asked.run_id
    task = [TextMessage(id=name, source="user", content=text)]
    if not told:
        return task
    known = "\n\n".join([BEFORE, *told])
    marked = {SAID_BEFORE: "true"}
    return [TextMessage(id=BEFORE_ID + asked.run_id, source="user", content=known, metadata=marked), *task]


def check(asked: RunAgentInput) -> None:
    """Refuse what can't be kept, or done.

    Raises:
        Problem: It is asked for.
    """
    if not 0 < len(asked.thread_id) <= LONGEST_ID:
        raise Problem(422, f"threadId has 1 to {LONGEST_ID} characters")
    if not RUN_ID.fullmatch(asked.run_id):
        raise Problem(422, "runId has 1 to 100 letters, digits, '_' and '-'")


def _text(content: Any) -> str:
    """The text of a content.

    Raises:
        Problem: It has something else than texts.
    """
    parts: list[Any] = [] if isinstance(content, str) else list(content)
    if any(getattr(part, "type", "") != "text" for part in parts):
        raise Problem(422, "only texts are taken here")
    return content if isinstance(content, str) else "\n".join(part.text for part in parts)
