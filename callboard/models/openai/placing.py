"""The place of system messages and instructions: what stays is at the start, what changes is at the end.

A server keeps what it has worked out for the beginning of the last request, and begins again at the first token that
differs. So the start of a conversation never changes because of what comes later in it: with memories merged into the
first message, each turn of a conversation is as expensive as all turns before it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

WireDict = dict[str, Any]
BETWEEN: Final = "\n\n"  # a user's text and what is added to it


def placed(
    wire: Sequence[WireDict], *, several: bool, instructions: str | None = None, closing: str | None = None
) -> list[WireDict]:
    """The messages of a request with all that the model is told besides.

    Args:
        wire: the conversation.
        several: whether the model takes several system messages, also between others. If not, those at the start become
            one, and later ones part of the user's message beside them.
        instructions: the same in every request of a conversation: behind the system messages at the start.
        closing: for this request only: at the end.
    """
    at_start = _length_of_start(wire)
    start, rest = list(wire[:at_start]), list(wire[at_start:])
    if instructions is not None:
        start.append(_system(instructions))
    if closing is not None:
        rest.append(_system(closing))
    return [*start, *rest] if several else [*_as_one(start), *_without_systems(rest)]


def _length_of_start(wire: Sequence[WireDict]) -> int:
    return next((at for at, message in enumerate(wire) if message["role"] != "system"), len(wire))


def _system(text: str) -> WireDict:
    return {"role": "system", "content": text}


def _as_one(systems: Sequence[WireDict]) -> list[WireDict]:
    return [_system("\n".join(message["content"] for message in systems))] if systems else []


def _without_systems(wire: Sequence[WireDict]) -> list[WireDict]:
    """System messages as text of users: many servers refuse one that is not the first, and two users in a row."""
    placed: list[WireDict] = []
    is_ours = False  # the last message is a system message for which there was no user's to put it into
    for message in wire:
        is_system, last = message["role"] == "system", placed[-1]["role"] if placed else None
        if is_system and last == "user":
            placed[-1] = {**placed[-1], "content": _joined(placed[-1]["content"], message["content"])}
        elif is_ours and message["role"] == "user":
            placed[-1] = {**message, "content": _joined(placed[-1]["content"], message["content"])}
            is_ours = False
        else:
            placed.append({**message, "role": "user"} if is_system else message)
            is_ours = is_system
    return placed


def _joined(first: str | list[WireDict], second: str | list[WireDict]) -> str | list[WireDict]:
    if isinstance(first, str) and isinstance(second, str):
        return first + BETWEEN + second
    return [*_parts(first), *_parts(second)]


def _parts(content: str | list[WireDict]) -> list[WireDict]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
