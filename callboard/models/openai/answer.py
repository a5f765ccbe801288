"""The answer of a server, from the wire: whole, or put together from the chunks of a stream.

Servers differ: they leave fields out, send null where the API has a list, and objects where it has text. The fields
required here are those that no answer can do without. Of all other fields those of `BESIDE` are kept, and whatever stands
beside a call: the next request has to have them. Source: OpenAI's chat completions
API; `reasoning_content` as DeepSeek, vLLM and llama.cpp have it, `reasoning` as Ollama and OpenRouter.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError

from callboard.memory.llm_messages import FunctionCall
from callboard.models.types import ChatCompletionTokenLogprob, RequestUsage

LONGEST_NAME: Final = 64  # characters
MOST_TOKENS: Final = 10**9  # no request reads or writes more
ALLOWED: Final = re.compile(r"[a-zA-Z0-9_-]+")
OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")


def is_name(text: str) -> bool:
    """Whether the API takes a text as the name of a tool or of a speaker."""
    return len(text) <= LONGEST_NAME and ALLOWED.fullmatch(text) is not None


def as_tool_name(text: str) -> str:
    """The name of a tool as a model wrote it, made so that it can be sent back in the next request.

    As AutoGen's `normalize_name`.
    """
    return OTHER.sub("_", text)[:LONGEST_NAME]


def first_problem(error: ValidationError) -> str:
    """The first problem of data and its place, in words that repeat nothing of the data."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return f"{path}{': ' if path else ''}{first['msg']}"


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class WireFunction(_Wire):
    """Name and arguments of a call, or pieces of them."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class WireCall(_Wire):
    """A tool call, or a piece of one; `index` tells which one."""

    model_config = ConfigDict(extra="allow")

    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None

    @property
    def beside(self) -> dict[str, Any]:
        """What else stands there, such as a signature in `extra_content` (Gemini)."""
        return {
            name: value
            for name, value in (self.model_extra or {}).items()
            if value is not None and name != "type"
        }


BESIDE: Final = ("reasoning_content", "reasoning_details", "extra_content", "thinking_blocks", "pydantic_ai")
"""What makers put beside a message, and want back: DeepSeek, OpenRouter, Gemini, Claude behind LiteLLM, `models.makers`."""


def _text(value: Any) -> Any:
    """The text of content that comes as a list of parts; parts that are no text are left out."""
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return value
    texts = [part.get("text") for part in value]
    return "".join(text for text in texts if isinstance(text, str))


def _list(value: Any) -> Any:
    return value if isinstance(value, list) else None


def _table(value: Any) -> Any:
    return value if isinstance(value, dict) else None


class WireAudio(_Wire):
    """Speech, of which agents get the transcript."""

    transcript: str | None = None


class WireMessage(_Wire):
    """A message of the assistant, or a piece of one."""

    model_config = ConfigDict(extra="allow")

    content: Annotated[str | None, BeforeValidator(_text)] = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    annotations: Annotated[list[JsonValue] | None, BeforeValidator(_list)] = None
    citations: Annotated[list[JsonValue] | None, BeforeValidator(_list)] = None
    audio: Annotated[WireAudio | None, BeforeValidator(_table)] = None
    tool_calls: list[WireCall] | None = None

    @property
    def said(self) -> str:
        """The text; of speech its transcript."""
        return self.content or (self.audio.transcript if self.audio else None) or ""

    @property
    def cited(self) -> list[JsonValue]:
        """The sources that the server names."""
        return [*(self.annotations or ()), *(self.citations or ())]

    @property
    def thinking(self) -> str:
        """The reasoning, "" for none."""
        return self.reasoning_content or self.reasoning or ""

    @property
    def beside(self) -> dict[str, Any]:
        """What its maker wants back."""
        extra = {"reasoning_content": self.reasoning_content, **(self.model_extra or {})}
        return {name: extra[name] for name in BESIDE if extra.get(name)}


class WireLogprobs(_Wire):
    """The tokens of the answer."""

    content: list[ChatCompletionTokenLogprob] | None = None


class WireChoice(_Wire):
    """One answer; in a chunk it has a `delta` in place of a `message`."""

    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None
    logprobs: WireLogprobs | None = None

    @property
    def tokens(self) -> list[ChatCompletionTokenLogprob] | None:
        """The tokens of the answer, None when they were not asked for."""
        return None if self.logprobs is None else self.logprobs.content


def _tokens(value: Any) -> int | None:
    """A number of tokens; None for what is none, so that a wrong count neither costs the answer nor spoils a sum."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= MOST_TOKENS else None


TokenCount: TypeAlias = Annotated[int | None, BeforeValidator(_tokens)]


class WireDetails(_Wire):
    """What tokens were."""

    cached_tokens: TokenCount = None
    reasoning_tokens: TokenCount = None


class WireUsage(_Wire):
    """The number of tokens."""

    prompt_tokens: TokenCount = None
    completion_tokens: TokenCount = None
    prompt_tokens_details: Annotated[WireDetails | None, BeforeValidator(_table)] = None
    completion_tokens_details: Annotated[WireDetails | None, BeforeValidator(_table)] = None
    prompt_cache_hit_tokens: TokenCount = None  # DeepSeek's

    @property
    def cached(self) -> int:
        """Tokens of the prompt that were in the server's cache."""
        details = self.prompt_tokens_details
        found = (details.cached_tokens if details else None) or self.prompt_cache_hit_tokens or 0
        return min(found, self.prompt_tokens or 0)

    @property
    def reasoning(self) -> int:
        """Tokens of the answer that are reasoning."""
        details = self.completion_tokens_details
        return min((details.reasoning_tokens if details else None) or 0, self.completion_tokens or 0)


Usage: TypeAlias = Annotated[WireUsage | None, BeforeValidator(_table)]


class WireCharge(_Wire):
    """Usage in an answer that can't be read otherwise."""

    usage: Usage = None


class WireError(_Wire):
    """An error that some servers send with status 200 in place of an answer."""

    message: str | None = None
    code: str | int | None = None


class WireAnswer(_Wire):
    """An answer, or a chunk of one."""

    error: WireError | None = None
    choices: list[WireChoice] | None = None
    usage: Usage = None


FENCED: Final = re.compile(
    r"```[ \t]*(?:json|tool_call|tool_calls|tool_code)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL
)
OPENING: Final = "<think>"
CLOSING: Final = "</think>"


def without_fence(text: str) -> str:
    """The inside of a text that is one fenced block, else the text itself, stripped."""
    stripped = text.strip()
    whole = FENCED.fullmatch(stripped)
    return whole[1].strip() if whole else stripped


def split_thought(text: str, *, opened: bool = False) -> tuple[str | None, str]:
    """The reasoning at the start of an answer, and the answer.

    AutoGen looks for the tags only in answers of the family R1; other models write them as well. Tags further
    inside belong to the answer, which may be about them.

    Args:
        text: the whole answer.
        opened: the reasoning may begin without its tag, because the model's template has put it into the prompt.

    Returns:
        The reasoning (None when there is none), and the rest. Both are stripped when there is reasoning.
    """
    body = text.lstrip()
    if body.startswith(OPENING):
        body = body[len(OPENING) :]
    elif not (opened and CLOSING in body):
        return None, text
    thought, _, rest = body.partition(CLOSING)
    return thought.strip() or None, rest.strip()


NOTHING_USED: Final = RequestUsage(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """An answer before anything is read into it.

    Attributes:
        text: said by the model.
        reasoning: from a field of its own.
        refusal: why the model won't answer.
        calls: the tool calls of the API.
        finish: the server's word for why it ended; None: it did not say.
        usage: tokens; zeros when the server did not count.
        beside: what the maker wants back with the message.
        beside_calls: the same of each call that has something, by its id.
        citations: the sources that the server names.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[FunctionCall, ...] = ()
    finish: str | None = None
    usage: RequestUsage = NOTHING_USED
    logprobs: tuple[ChatCompletionTokenLogprob, ...] | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)
    beside_calls: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    citations: Sequence[JsonValue] = ()


def whole_answer(body: bytes | str) -> ServerAnswer | WireError | None:
    """Read the body of a response.

    Returns:
        The first choice, or the error that came in its place; None when there is neither.

    Raises:
        pydantic.ValidationError: it is no JSON, or no answer of a chat.
    """
    read = WireAnswer.model_validate_json(body)
    if read.error is not None:
        return read.error
    for choice in read.choices or ():
        return _of_choice(choice, read.usage)
    return None


def _of_choice(choice: WireChoice, usage: WireUsage | None) -> ServerAnswer | None:
    message = choice.message
    if message is None:
        return None
    read = [
        (make_call(call.id, call.function.name, arguments_text(call.function)), call.beside)
        for call in message.tool_calls or ()
        if call.function is not None
    ]
    return ServerAnswer(
        text=message.said,
        reasoning=message.thinking,
        refusal=message.refusal or "",
        calls=tuple(call for call, _ in read),
        beside=message.beside,
        beside_calls={call.id: beside for call, beside in read if beside},
        citations=message.cited,
        finish=choice.finish_reason,
        usage=usage_of(usage),
        logprobs=None if choice.tokens is None else tuple(choice.tokens),
    )


def make_call(id: str | None, name: str | None, arguments: str) -> FunctionCall:
    """A call as agents see it: with an id, a name that may be sent back, and arguments even when there are none."""
    return FunctionCall(
        id=id or f"call_{uuid.uuid4().hex}", arguments=arguments or "{}", name=as_tool_name(name or "")
    )


def arguments_text(function: WireFunction) -> str:
    """The arguments as text; some servers send the object itself."""
    given = function.arguments
    return json.dumps(given, ensure_ascii=False) if isinstance(given, dict) else given or ""


def charged_in(body: bytes | str) -> RequestUsage:
    """Tokens that the server counted in a body, whatever else stands there."""
    try:
        return usage_of(WireCharge.model_validate_json(body).usage)
    except ValidationError:
        return NOTHING_USED


def usage_of(usage: WireUsage | None) -> RequestUsage:
    """Tokens, zeros for what the server leaves out."""
    if usage is None:
        return NOTHING_USED
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return RequestUsage(prompt, completion, usage.cached, usage.reasoning)


@dataclass(slots=True)
class _CallParts:
    id: str = ""
    name: str = ""
    arguments: str = ""
    beside: dict[str, Any] = field(default_factory=dict[str, Any])


class Assembler:
    """Takes the chunks of one stream, in their order.

    Reasoning is put between `<think>` and `</think>` in the pieces, as AutoGen does.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_CallParts] = []
        self._by_index: dict[int, _CallParts] = {}
        self._beside: dict[str, Any] = {}
        self._citations: list[JsonValue] = []
        self._logprobs: list[ChatCompletionTokenLogprob] | None = None
        self._thinking = False
        self._finish: str | None = None
        self._usage = NOTHING_USED
        self._begun = False

    @property
    def is_complete(self) -> bool:
        """Whether the server has said why the answer ended."""
        return self._finish is not None

    @property
    def has_begun(self) -> bool:
        """Whether anything of the answer came."""
        return self._begun

    @property
    def usage(self) -> RequestUsage:
        """Tokens, as far as the server has counted them."""
        return self._usage

    @property
    def everything(self) -> str:
        """All that the model has written so far: text, reasoning, calls."""
        calls = (part for call in self._calls for part in (call.name, call.arguments))
        return "".join((*self._reasoning, *self._text, *self._refusal, *calls))

    def add(self, chunk: WireAnswer) -> list[str]:
        """Take a chunk.

        Returns:
            The pieces of text to pass on.
        """
        self._begun = True
        if chunk.usage is not None:
            # Some servers repeat the sum so far in every chunk: the last one counts.
            self._usage = usage_of(chunk.usage)
        if not chunk.choices:
            return []
        choice = chunk.choices[0]
        self._finish = choice.finish_reason or self._finish
        if choice.tokens is not None:
            self._logprobs = [*(self._logprobs or ()), *choice.tokens]
        delta = choice.delta
        return [] if delta is None else self._add_delta(delta)

    def _add_delta(self, delta: WireMessage) -> list[str]:
        for call in delta.tool_calls or ():
            self._add_call(call)
        self._refusal.append(delta.refusal or "")
        self._citations += [one for one in delta.cited if one not in self._citations]
        for name, value in delta.beside.items():
            self._beside[name] = _put_together(self._beside.get(name), value)
        pieces: list[str] = []
        if delta.thinking:
            self._reasoning.append(delta.thinking)
            pieces.append(delta.thinking if self._thinking else OPENING + delta.thinking)
            self._thinking = True
        said = delta.said
        if self._thinking and (said or delta.tool_calls or self.is_complete):
            pieces.append(CLOSING)
            self._thinking = False
        if said:
            self._text.append(said)
            pieces.append(said)
        return pieces

    def _add_call(self, delta: WireCall) -> None:
        call = self._call_of(delta)
        call.id = call.id or delta.id or ""
        for name, value in delta.beside.items():
            call.beside[name] = _put_together(call.beside.get(name), value)
        function = delta.function
        if function is None:
            return
        # A name may come in pieces, and some servers repeat it in every chunk.
        if function.name and function.name != call.name:
            call.name += function.name
        call.arguments += arguments_text(function)

    def _call_of(self, delta: WireCall) -> _CallParts:
        """The call that a piece belongs to.

        Some servers count no index, or always the same one.
        """
        known = self._by_index.get(delta.index) if delta.index is not None else self._last
        if known is not None and _continues(known, delta):
            return known
        call = _CallParts()
        self._calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        return call

    @property
    def _last(self) -> _CallParts | None:
        return self._calls[-1] if self._calls else None

    def answer(self) -> ServerAnswer:
        """The answer so far."""
        read = [(make_call(call.id, call.name, call.arguments), call.beside) for call in self._calls]
        return ServerAnswer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            refusal="".join(self._refusal),
            calls=tuple(call for call, _ in read),
            beside=self._beside,
            citations=tuple(self._citations),
            beside_calls={call.id: beside for call, beside in read if beside},
            finish=self._finish,
            usage=self._usage,
            logprobs=None if self._logprobs is None else tuple(self._logprobs),
        )


def _put_together(known: Any, piece: Any) -> Any:
    """A field of which pieces come: texts and lists one behind the other, of tables each field like that."""
    if isinstance(known, str) and isinstance(piece, str):
        return known + piece
    if isinstance(known, list) and isinstance(piece, list):
        return [*known, *piece]
    if isinstance(known, dict) and isinstance(piece, dict):
        return {**known, **{name: _put_together(known.get(name), value) for name, value in piece.items()}}
    return piece


def _continues(known: _CallParts, delta: WireCall) -> bool:
    """Whether a piece belongs to a call: by its id, or because it does not begin with a name of its own."""
    if known.id and delta.id:
        return known.id == delta.id
    name = delta.function.name if delta.function else None
    return not (name and known.arguments and (not known.id or name != known.name))
