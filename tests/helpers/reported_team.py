"""A team whose members write word by word, with a question between them; each call of a model is noted down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from callboard import App
from callboard.agents import AssistantAgent, UserProxyAgent
from callboard.memory.llm_messages import LLMMessage
from callboard.models import CreateResult, ReplayChatCompletionClient, RequestUsage
from callboard.teams import RoundRobinGroupChat

DRAFT = "What was asked is in this draft."
REPORT = "So the report is as you have it here."


class Gated(ReplayChatCompletionClient):
    """Notes its calls in the folder that the task names, and goes on behind three words when its file is there.

    Args:
        name: Of its file.
        text: What it says.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__([], default=text)
        self._name, self._text = name, text

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        folder = Path(str(messages[0].content))
        with (folder / "calls").open("a") as calls:
            calls.write(f"{self._name}\n")
        words = self._text.split(" ")
        for at, word in enumerate(words):
            while at == 3 and not (folder / self._name).exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
            yield f"{' ' if at else ''}{word}"
        yield CreateResult(
            finish_reason="stop", content=self._text, usage=RequestUsage(20, len(words)), cached=False
        )


def writer(name: str, text: str) -> AssistantAgent:
    return AssistantAgent(name, Gated(name, text), system_message=None, model_client_stream=True)


app = App("reported")
app.team(
    RoundRobinGroupChat(
        [writer("ann", DRAFT), UserProxyAgent("boss"), writer("bob", REPORT)], name="report", max_turns=3
    ),
    serve=True,
)
