"""Asks a model one question and shows its answer as it comes.

Without a key a scripted model answers. With OPENAI_API_KEY set it is a real one, and with OPENAI_BASE_URL that of any
server with OpenAI's API; OPENAI_MODEL names it.

    python -m examples.ask_model What is an actor?
"""

from __future__ import annotations

import asyncio
import sys

from callboard.models import (
    CreateResult,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from .models import make_model

QUESTION = "What is an actor?"
SCRIPTED = "An actor is an agent with an address, a mailbox and a state of its own."


async def ask(question: str) -> CreateResult:
    messages: list[LLMMessage] = [
        SystemMessage(content="You answer in one sentence."),
        UserMessage(content=question, source="user"),
    ]
    async with make_model(SCRIPTED) as client:
        async for item in client.create_stream(messages):
            if isinstance(item, CreateResult):
                return item
            print(item, end="", flush=True)
    raise AssertionError("a stream ends with its result")


async def main() -> None:
    result = await ask(" ".join(sys.argv[1:]) or QUESTION)
    print(f"\n({result.usage.prompt_tokens} tokens read, {result.usage.completion_tokens} written)")


if __name__ == "__main__":
    asyncio.run(main())
