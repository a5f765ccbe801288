"""Output items: what members said, and the question with which a segment ends."""

from __future__ import annotations

import json
from typing import Any, Final

from callboard.runs.events import AgentMessageEvent

from .segments import Asking, Segment

QUESTION: Final = "answer_question"
"""The reserved name: who calls this function wants the answer of a person."""


def arguments_of(segment: Segment, question: Asking) -> str:
    """What is asked, as the arguments of a call; `response` goes on when it is answered, whoever answers."""
    told = {
        "question": question.prompt,
        "choices": list(question.choices),
        "answer_schema": question.answer_schema,
        "details": question.details,
        "expires": None if question.expires is None else question.expires.isoformat(),
        "response": f"resp_{segment.behind(question).id}",
    }
    return json.dumps(told, ensure_ascii=False)


def question_item(segment: Segment, question: Asking) -> dict[str, Any]:
    """A question as the call of a function."""
    return {
        "id": f"fc_{question.request_id}",
        "type": "function_call",
        "status": "completed",
        "call_id": question.request_id,
        "name": QUESTION,
        "arguments": arguments_of(segment, question),
    }


def message_item(id: str, source: str, text: str, status: str = "completed") -> dict[str, Any]:
    """A message of a member."""
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [text_part(text)],
        "source": source,
    }


def text_part(text: str) -> dict[str, Any]:
    """A text as a part of a content."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def item_of(event: AgentMessageEvent) -> dict[str, Any]:
    """A message that counts."""
    return message_item(f"msg_{event.message['id']}", event.source, event.message["text"])
