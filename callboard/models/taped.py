"""Answers of models on tape: noted where a run is recorded, and given again where it is replayed, without a network."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from callboard.memory.llm_messages import LLMMessage
from callboard.runtime.taping import MOST_TEXT, is_played, is_taped, note, played

from .base import ChatCompletionClient
from .in_run import in_run
from .request import ModelRequest
from .types import CreateResult

DIGITS: Final = 12  # of a message's hash


async def answer_of(request: ModelRequest, client: ChatCompletionClient) -> CreateResult:
    """The answer of a client, metered in a run; or the recorded one."""
    if is_played():
        return play(request)
    return await request.create(in_run(client))


def play(request: ModelRequest) -> CreateResult:
    """The recorded answer."""
    return CreateResult.model_validate(played("model", described(request)))


def note_answer(request: ModelRequest, result: CreateResult) -> None:
    """Note an answer, if somebody records."""
    if is_taped():
        note("model", described(request), result.model_dump(mode="json"))


def described(request: ModelRequest) -> dict[str, Any]:
    """A request as a tape has it: a hash of each message, the text of the last one, and the names of the tools."""
    last = request.messages[-1] if request.messages else None
    return {
        "messages": [f"{message.type} {_digest(message)}" for message in request.messages],
        "tools": sorted(_name(tool) for tool in request.tools),
        "last": "" if last is None else str(last.content)[:MOST_TEXT],
    }


def _digest(message: LLMMessage) -> str:
    data = message.model_dump_json().encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def _name(tool: Any) -> str:
    return str(tool["name"] if isinstance(tool, dict) else tool.name)
