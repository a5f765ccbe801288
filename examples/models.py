"""What the examples share: their model, which is a script, or a real one where the environment names it.

With OPENAI_API_KEY set it is OpenAI's, and with OPENAI_BASE_URL that of any server with OpenAI's API, such as one on this
machine; OPENAI_MODEL names it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from callboard.models import (
    AssistantMessage,
    ChatCompletionClient,
    FunctionCall,
    LLMMessage,
    ModelInfo,
    ReplayChatCompletionClient,
)
from callboard.models.info import known_model
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.replay import Answer
from callboard.teams import BaseGroupChat
from callboard.ui import Console

# What a model is taken to be able to do that is not one of the well-known.
UNKNOWN_MODEL = ModelInfo(
    vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True
)

opened: list[ChatCompletionClient] = []


def make_model(script: Answer) -> ChatCompletionClient:
    """The model that the environment names; without one, a script.

    Args:
        script: An answer, or a function of what the model is shown. Such a function gives the same answers in every process.
    """
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        return ReplayChatCompletionClient(default=script)
    model = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
    client = OpenAIChatCompletionClient(model, model_info=None if known_model(model) else UNKNOWN_MODEL)
    opened.append(client)
    return client


async def show(team: BaseGroupChat, task: str) -> None:
    """Let a team of this process carry out what the command line says, or the task; prints what is said."""
    try:
        await Console(team.run_stream(task=" ".join(sys.argv[1:]) or task))
    finally:
        await close_models()


async def close_models() -> None:
    """Close the connections to servers."""
    while opened:
        await opened.pop().close()


def in_turn(*answers: str | list[FunctionCall]) -> Answer:
    """A script that gives one answer after the other, by how often the conversation has one; at last the last again."""

    def script(messages: Sequence[LLMMessage]) -> str | list[FunctionCall]:
        given = sum(isinstance(message, AssistantMessage) for message in messages)
        return answers[min(given, len(answers) - 1)]

    return script


def call(tool: str, /, **arguments: object) -> list[FunctionCall]:
    """An answer that asks for a tool."""
    return [FunctionCall(id=f"call_{tool}", name=tool, arguments=json.dumps(arguments))]
