"""Agents for tests of runs, whose models say what a script tells them."""

from __future__ import annotations

import json
from typing import Any

from callboard.groupchat import ConversableAgent
from callboard.memory.llm_messages import FunctionCall
from callboard.models import ReplayChatCompletionClient


def call(name: str, /, **arguments: Any) -> list[FunctionCall]:
    """An answer that calls a function."""
    return [FunctionCall(id=f"call_{name}", name=name, arguments=json.dumps(arguments))]


def speaker(name: str, *answers: Any, **options: Any) -> ConversableAgent:
    """An agent with these answers."""
    options = {"human_input_mode": "NEVER", **options}
    return ConversableAgent(name, llm_config=ReplayChatCompletionClient(list(answers)), **options)


def chatterer(name: str, **options: Any) -> ConversableAgent:
    """An agent that says the same again and again."""
    model = ReplayChatCompletionClient([], default=f"{name} speaks")
    return ConversableAgent(name, llm_config=model, human_input_mode="NEVER", **options)
