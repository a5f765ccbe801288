"""Teams for tests of doors: one who streams, two who take turns, one who asks, one who fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from callboard import App
from callboard.agents import AssistantAgent
from callboard.conditions import TextMentionTermination
from callboard.groupchat import ConversableAgent
from callboard.memory.llm_messages import LLMMessage
from callboard.models import CreateResult, FunctionCall, ReplayChatCompletionClient, RequestUsage
from callboard.runs import ask_user, run_team
from callboard.teams import RoundRobinGroupChat

WORDS = "One two three four five six seven eight."


class Pieces(ReplayChatCompletionClient):
    """Streams word by word. Where it is told to wait for a file, it does after three words.

    "Wait /tmp/file": the words are the same in each attempt. "Change /tmp/file": each process says something else.
    """

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        order, _, gate = str(messages[-1].content).partition(" ")
        is_gated = order in ("Wait", "Change")
        text = f"I am {os.getpid()} here now." if order == "Change" else WORDS
        words = text.split(" ")
        for at, word in enumerate(words):
            while at == 3 and is_gated and not Path(gate).exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
            yield f"{' ' if at else ''}{word}"
        yield CreateResult(
            finish_reason="stop", content=text, usage=RequestUsage(20, len(words)), cached=False
        )


def repeat(messages: Sequence[LLMMessage]) -> str:
    """All that the model was told, for tests of what it is told."""
    return "|".join(str(message.content) for message in messages)


def fail(messages: Sequence[LLMMessage]) -> str:
    raise RuntimeError("the model is out of order")


def agent(name: str, answer: Any, *, stream: bool = False) -> AssistantAgent:
    client = Pieces([], default=answer)
    return AssistantAgent(name, client, system_message=None, model_client_stream=stream)


async def ask_customer(question: str) -> str:
    """Asks the customer."""
    return str(await ask_user(question))


def support_answer(messages: Sequence[LLMMessage]) -> Any:
    if messages[-1].type == "FunctionExecutionResultMessage":
        return f"You said {messages[-1].content[0].content}."
    return [FunctionCall(id="1", name="ask_customer", arguments='{"question": "Which order?"}')]


support = ConversableAgent(
    "support", llm_config=ReplayChatCompletionClient([], default=support_answer), human_input_mode="NEVER"
)
support.register_for_llm(description="Asks the customer.")(ask_customer)

app = App("talking")
app.team(
    RoundRobinGroupChat([agent("ann", lambda _: WORDS, stream=True)], name="words", max_turns=1), serve=True
)
app.team(
    RoundRobinGroupChat([agent("echo", repeat)], name="echo", max_turns=1), serve="Says what it was told."
)
app.team(
    RoundRobinGroupChat(
        [agent("first", lambda _: "A draft."), agent("second", lambda _: "The answer.")],
        name="pair",
        max_turns=2,
    ),
    serve=True,
)
app.team(RoundRobinGroupChat([agent("broken", fail)], name="broken", max_turns=1), serve=True)
app.team(run_team(support, name="support", max_turns=1), serve=True)
app.team(
    RoundRobinGroupChat(
        [agent("polite", lambda _: "Hello. TERMINATE")],
        name="polite",
        termination_condition=TextMentionTermination("TERMINATE"),
    ),
    serve=True,
)
