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

from callboard import App, Log, MessageContext, RoutedAgent, rpc
from callboard.memory import LongTermMemoryError, MemoryContent, MemoryMimeType, quick_embedder
from callboard.memory_service import MemoryServiceClient, memory_service
from callboard.models import (
    AssistantMessage,
    ChatCompletionClient,
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
    RecordedChatCompletionClient,
    ReplayChatCompletionClient,
    SystemMessage,
    UserMessage,
)
from callboard.models.info import known_model
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.tools import StaticWorkbench, run_tools, tool

RULES = SystemMessage(content="You help with notes and questions. Use the tool to write notes. Be brief.")
NOTES = Path(os.environ.get("NOTES", "notes.txt"))
STEPS = 8  # requests to the model for one question

app = App("assistant")


class Question(BaseModel):
    """Somebody asks something."""

    text: str


class Answer(BaseModel):
    """The answer."""

    text: str


@tool
def write_note(text: str) -> str:
    """Writes a note down.

    Args:
        text: The note, in one sentence.
    """
    with NOTES.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return "It is written down."


@app.agent("assistant")
class Assistant(RoutedAgent):
    """One conversation; the agent's key is its name."""

    class State(BaseModel):
        """What was said, oldest first. A commit adds to it and never writes it anew."""

        thread: Log[LLMMessage] = Log()

    def __init__(self) -> None:
        super().__init__("answers questions")
        # Both keep what was answered before it is used: after a crash neither the model nor a tool is asked again.
        self.model = RecordedChatCompletionClient(make_model())
        self.workbench = StaticWorkbench([write_note], timeout=30)
        self.memory = MemoryServiceClient(self, "everybody") if has_memory else None

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        thread: Log[LLMMessage] = self.state.thread
        recalled = await ctx.once("recall", self.recall, message.text)
        thread.append(UserMessage(content=message.text + recalled, source="user"))
        tools = await self.workbench.list_tools()
        for _ in range(STEPS):
            answer = await self.model.create(
                [RULES, *thread], tools=tools, cancellation_token=ctx.cancellation_token
            )
            thread.append(
                AssistantMessage(content=answer.content, thought=answer.thought, source=self.id.type)
            )
            if isinstance(answer.content, str):
                await self.remember(message.text)
                return Answer(text=answer.content)
            results = await run_tools(answer.content, self.workbench, ctx)
            thread.append(FunctionExecutionResultMessage(content=results))
        return Answer(text=f"I gave up after {STEPS} steps.")

    async def recall(self, text: str) -> str:
        """What is known from any conversation that fits a text; "" when nothing is."""
        found = [] if self.memory is None else (await self.memory.query(text, k=3)).results
        facts = "\n".join(f"- {one.text}" for one in found)
        return f"\n\nWhat was said before, perhaps of use:\n{facts}" if facts else ""

    async def remember(self, text: str) -> None:
        """Leaves with the commit, so that a question is remembered once."""
        if self.memory is not None:
            await self.memory.add(MemoryContent(content=text, mime_type=MemoryMimeType.TEXT))


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
    said, _, recalled = str(last.content).partition("\n\n")
    if said.lower().startswith("note "):
        return [FunctionCall(id="call", name="write_note", arguments=json.dumps({"text": said[5:]}))]
    return f"You said: {said}" + (f"\n{recalled}" if recalled else "")


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
