"""An assistant that goes on where it was, whatever dies: a conversation, a tool, and long-term memory.

Without a key a scripted model answers. With OPENAI_API_KEY it is a real one, and with OPENAI_BASE_URL that of any server
with OpenAI's API, such as one on this machine, which needs no key; OPENAI_MODEL names it.
"""

import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel

from callboard import App, Log, MessageContext, Request, RoutedAgent, rpc
from callboard.agents import AssistantAgent
from callboard.memory import LongTermMemoryError, MemoryContent, MemoryMimeType, quick_embedder
from callboard.memory_service import MemoryServiceClient, memory_service
from callboard.messages import TextMessage
from callboard.models import (
    ChatCompletionClient,
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
    ReplayChatCompletionClient,
    UserMessage,
)
from callboard.models.info import known_model
from callboard.models.openai import OpenAIChatCompletionClient

RULES = "You help with notes and questions. Use the tool to write notes. Be brief."
NOTES = Path(os.environ.get("NOTES", "notes.txt"))

app = App("assistant")


class Answer(BaseModel):
    """The answer."""

    text: str


class Question(BaseModel, Request[Answer]):
    """Somebody asks something."""

    text: str


class Conversation(BaseModel):
    """The state of an assistant: what was said, oldest first. A commit adds to it and never writes it anew."""

    thread: Log[LLMMessage] = Log()


def write_note(text: str) -> str:
    """Writes a note down.

    Args:
        text: The note, in one sentence.
    """
    with NOTES.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return "It is written down."


@app.agent("assistant")
class Assistant(RoutedAgent[Conversation]):
    """One conversation; the agent's key is its name."""

    def __init__(self) -> None:
        super().__init__("answers questions")
        self.memory = [MemoryServiceClient(self, "everybody", k=3)] if has_memory else []
        # It keeps each answer before it is used: after a crash neither the model nor a tool is asked again.
        self.helper = AssistantAgent(
            "assistant",
            make_model(),
            tools=[write_note],
            memory=self.memory,
            system_message=RULES,
            max_tool_iterations=8,
        )

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        self.helper.keep_context_in(self.state.thread)
        task = TextMessage(content=message.text, source="user")
        response = await self.helper.on_messages([task], ctx.cancellation_token)
        for memory in self.memory:  # leaves with the commit, so that a question is remembered once
            await memory.add(MemoryContent(content=message.text, mime_type=MemoryMimeType.TEXT))
        return Answer(text=response.chat_message.to_text())


def make_model() -> ChatCompletionClient:
    """The model that the environment names; without one, a script."""
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        return ReplayChatCompletionClient(default=script)
    model = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
    return OpenAIChatCompletionClient(model, model_info=None if known_model(model) else UNKNOWN_MODEL)


# What a model is taken to be able to do that is not one of the well-known. Very small ones: tool_mode="schema".
UNKNOWN_MODEL = ModelInfo(
    vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True
)


def script(messages: Sequence[LLMMessage]) -> str | list[FunctionCall]:
    """The model for which there is no key: it writes down what begins with "note", and repeats the rest."""
    last = messages[-1]
    if isinstance(last, FunctionExecutionResultMessage):
        return last.content[0].content
    asked = next(i for i in reversed(range(len(messages))) if isinstance(messages[i], UserMessage))
    said = str(messages[asked].content)
    if said.lower().startswith("note "):
        return [FunctionCall(id="call", name="write_note", arguments=json.dumps({"text": said[5:]}))]
    return "\n".join([f"You said: {said}", *(str(recalled.content) for recalled in messages[asked + 1 :])])


def declare_memory() -> bool:
    """Adds the memory service, where `pip install 'callboard[memory,embeddings]'` has brought what it needs."""
    if find_spec("chromadb") is None:
        return False
    try:
        memory_service(app, embedder=quick_embedder())
    except LongTermMemoryError:
        return False
    return True


has_memory = declare_memory()
