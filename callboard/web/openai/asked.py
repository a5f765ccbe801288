"""What clients ask for: the bodies of requests, the task in them, and what of them does not apply here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from callboard.messages.chat import TextMessage
from callboard.teams.loop import SAID_BEFORE

from .answers import Refusal

NOTES: Final = "openai"
"""Where the metadata of a task keep what a response shows of its request."""

BEFORE: Final = "What was said before, and is known:"
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MOST_NAMED: Final = 30  # parameters, in the warning
TEXTS: Final = frozenset({"text", "input_text", "output_text"})
KNOWN_ITEMS: Final = frozenset({"function_call", "item_reference", "reasoning"})
"""Items of earlier responses that clients send again: the conversation has them already."""


class _Asked(BaseModel):
    # What is not known is named in a warning: clients send parameters of many makers.
    model_config = ConfigDict(extra="allow")

    @property
    def ignored(self) -> list[str]:
        """Parameters that were given, and do not apply."""
        given = (self.model_extra or {}).items()
        return sorted(name for name, value in given if value not in (None, [], {}))


class Part(BaseModel):
    """A part of a content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool | None = None


class Format(BaseModel):
    """The form of the answer."""

    type: str


class TextOptions(BaseModel):
    """Options of a response's text."""

    format: Format | None = None


class ChatMessage(BaseModel):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_call_id: str | None = None


class ChatRequest(_Asked):
    """A chat completion to make."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, max_length=200)
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    tool_choice: Any = None
    response_format: Format | None = None
    modalities: list[str] | None = None


class ConversationName(BaseModel):
    """A conversation, by its id."""

    id: str = Field(min_length=1, max_length=200)


class Item(BaseModel):
    """An item of the input of a response."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[Part] | None = None
    call_id: str | None = None
    output: str | list[Part] | None = None


class ResponseRequest(_Asked):
    """A response to make."""

    model: str | None = None
    input: str | list[Item] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationName | None = None
    background: bool | None = None
    stream: bool | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = Field(None, max_length=16)
    tools: list[Any] | None = None
    tool_choice: Any = None
    text: TextOptions | None = None
    stream_options: Any = None


@dataclass(frozen=True, slots=True)
class Spoken:
    """Something that was said.

    Attributes:
        role: By whom, in OpenAI's words.
        text: What.
    """

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question of a run.

    Attributes:
        question: Id of the question.
        text: As it was typed.
    """

    question: str
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """What a request says.

    Attributes:
        earlier: What was said before.
        last: The task; None: the request answers.
        answers: Answers to questions.
    """

    earlier: tuple[Spoken, ...]
    last: Spoken | None
    answers: tuple[Answer, ...] = ()


def chat_said(messages: Sequence[ChatMessage]) -> Said:
    """What the messages of a chat say: the last one is the task, or those behind the last call are answers.

    Raises:
        Refusal: The last one is neither.
    """
    spoken: list[Spoken] = []
    answers: list[Answer] = []
    for at, message in enumerate(messages):
        place = f"messages[{at}]"
        text = text_of(message.content, f"{place}.content")
        if message.role in ("tool", "function"):
            if message.tool_call_id is None:
                raise Refusal(
                    400, "a message of a tool names its call", "invalid_value", f"{place}.tool_call_id"
                )
            answers.append(Answer(message.tool_call_id, text))
            continue
        # What was answered before somebody spoke again is over.
        answers.clear()
        if text:
            spoken.append(Spoken(message.role, text))
    return _said(spoken, answers, "messages")


def input_said(given: str | Sequence[Item] | None) -> Said:
    """What the input of a response says.

    Raises:
        Refusal: It is no task and no answer.
    """
    if given is None or isinstance(given, str):
        return _said([Spoken("user", given)] if given else [], [], "input")
    spoken: list[Spoken] = []
    answers: list[Answer] = []
    for at, item in enumerate(given):
        place = f"input[{at}]"
        if item.type == "function_call_output":
            if item.call_id is None:
                raise Refusal(400, "an output names its call", "invalid_value", f"{place}.call_id")
            answers.append(Answer(item.call_id, text_of(item.output, f"{place}.output")))
        elif item.type == "message" and item.role is not None:
            answers.clear()
            spoken.append(Spoken(item.role, text_of(item.content, f"{place}.content")))
        elif item.type not in KNOWN_ITEMS:
            raise Refusal(
                400, "an item is a message with a role, or a function_call_output", "invalid_value", place
            )
    return _said(spoken, answers, "input")


def _said(spoken: list[Spoken], answers: list[Answer], param: str) -> Said:
    if answers:
        return Said((), None, tuple(answers))
    if not spoken or spoken[-1].role != "user" or not spoken[-1].text:
        raise Refusal(400, "the last message is the task: a text of the role user", "invalid_value", param)
    return Said(tuple(spoken[:-1]), spoken[-1])


def text_of(content: str | Sequence[Part] | None, param: str) -> str:
    """The text of a content.

    Raises:
        Refusal: It has something else than texts.
    """
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type not in TEXTS and part.type != "refusal":
            raise Refusal(400, "only texts are taken here", "unsupported_value", param)
    return "\n".join(part.text or part.refusal or "" for part in content)


def task_of(
    said: Said, is_fresh: bool, instructions: str | None, notes: Mapping[str, Any]
) -> list[TextMessage]:
    """The task of a run: what was said before, where its conversation does not know it, and the last message.

    No termination condition looks at what was said before: its last message often has the word with which that run ended.

    Args:
        said: What the request says.
        is_fresh: Whether nothing was said in the conversation yet.
        instructions: For this response; None: there are none.
        notes: What of the request is shown with the response.
    """
    earlier = [Spoken("system", instructions)] if instructions else []
    earlier += said.earlier if is_fresh else ()
    lines = [f"{one.role}: {one.text}" for one in earlier if one.text]
    known, marked = "\n\n".join([BEFORE, *lines]), {SAID_BEFORE: "true"}
    before = [TextMessage(source="user", content=known, metadata=marked)] if lines else []
    text = said.last.text if said.last else ""
    return [*before, TextMessage(source="user", content=text, metadata={NOTES: json.dumps(notes)})]


def check_tools(asked: ChatRequest | ResponseRequest) -> None:
    """Refuse what would change what comes out, and can't be done.

    Raises:
        Refusal: It is asked for.
    """
    functions = asked.functions if isinstance(asked, ChatRequest) else None
    if asked.tools or functions:
        raise Refusal(
            400,
            "a service has its own tools, and takes none of the client; leave `tools` out",
            "unsupported_parameter",
            "tools" if asked.tools else "functions",
        )
    form = asked.response_format if isinstance(asked, ChatRequest) else asked.text and asked.text.format
    if form and form.type != "text":
        param = "response_format" if isinstance(asked, ChatRequest) else "text.format"
        raise Refusal(400, "the service says which form its answer has", "unsupported_parameter", param)
    if isinstance(asked, ChatRequest) and asked.n not in (None, 1):
        raise Refusal(400, "there is one answer", "unsupported_value", "n")
    if isinstance(asked, ChatRequest) and asked.modalities not in (None, [], ["text"]):
        raise Refusal(400, "only texts come out", "unsupported_value", "modalities")


def warning(ignored: Sequence[str]) -> dict[str, str]:
    """The header that names the parameters that do not apply."""
    # Only what a header can carry: names are a client's own.
    named = [name for name in ignored if NAME.fullmatch(name)][:MOST_NAMED]
    if not ignored:
        return {}
    return {"warning": f'299 callboard "these do not apply here: {", ".join(named) or "some"}"'}
