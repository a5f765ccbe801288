"""One request to the chat API: the messages as the API takes them, the form of the answer, and its meaning.

A server keeps what it has worked out for the beginning of the last request, and begins again at the first token that
differs. So the start of a conversation never changes because of what comes later in it: with memories merged into the
first message, each turn of a conversation is as expensive as all turns before it together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ValidationError

from callboard.foundation.texts import read_json
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    SystemMessage,
    UserMessage,
    Vendor,
)
from callboard.models.base import ModelRequest
from callboard.models.errors import BadRequestError, BadResponseError
from callboard.models.info import ModelInfo
from callboard.models.types import CreateResult, FinishReasons, ModelFamily

from .answer import (
    LONGEST_NAME,
    OTHER,
    ServerAnswer,
    as_tool_name,
    first_problem,
    is_name,
    split_thought,
    without_fence,
)
from .settings import OpenAISettings, check_arguments, refuse_audio
from .tool_calls import (
    KnownCalls,
    Objection,
    ToolOffer,
    ToolSchemas,
    call_as_text,
    read_calls,
    read_reply,
    reply_schema,
    strict_schema,
)

WireDict = dict[str, Any]
BETWEEN: Final = "\n\n"  # a user's text and what is added to it


def placed(
    wire: Sequence[WireDict], *, several: bool, instructions: str | None = None, closing: str | None = None
) -> list[WireDict]:
    """The messages of a request with all that the model is told besides.

    Args:
        wire: the conversation.
        several: whether the model takes several system messages, also between others. If not, those at the start become
            one, and later ones part of the user's message beside them.
        instructions: the same in every request of a conversation: behind the system messages at the start.
        closing: for this request only: at the end.
    """
    at_start = _length_of_start(wire)
    start, rest = list(wire[:at_start]), list(wire[at_start:])
    if instructions is not None:
        start.append(_system(instructions))
    if closing is not None:
        rest.append(_system(closing))
    return [*start, *rest] if several else [*_as_one(start), *_without_systems(rest)]


def _length_of_start(wire: Sequence[WireDict]) -> int:
    return next((at for at, message in enumerate(wire) if message["role"] != "system"), len(wire))


def _system(text: str) -> WireDict:
    return {"role": "system", "content": text}


def _as_one(systems: Sequence[WireDict]) -> list[WireDict]:
    return [_system("\n".join(message["content"] for message in systems))] if systems else []


def _without_systems(wire: Sequence[WireDict]) -> list[WireDict]:
    """System messages as text of users: many servers refuse one that is not the first, and two users in a row."""
    placed: list[WireDict] = []
    is_ours = False  # the last message is a system message for which there was no user's to put it into
    for message in wire:
        is_system, last = message["role"] == "system", placed[-1]["role"] if placed else None
        if is_system and last == "user":
            placed[-1] = {**placed[-1], "content": _joined(placed[-1]["content"], message["content"])}
        elif is_ours and message["role"] == "user":
            placed[-1] = {**message, "content": _joined(placed[-1]["content"], message["content"])}
            is_ours = False
        else:
            placed.append({**message, "role": "user"} if is_system else message)
            is_ours = is_system
    return placed


def _joined(first: str | list[WireDict], second: str | list[WireDict]) -> str | list[WireDict]:
    if isinstance(first, str) and isinstance(second, str):
        return first + BETWEEN + second
    return [*_parts(first), *_parts(second)]


def _parts(content: str | list[WireDict]) -> list[WireDict]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


DIGITS: Final = 6  # of a hash, where the rest of a name is not enough to tell two sources apart
UNNAMED: Final = "speaker"


class SpeakerNames:
    """The names of the sources of one request, no two of which share one.

    The source of a message may be any text, such as the agent id `writer/ada`, which becomes `writer_ada`. A source that
    comes later never changes the name of one before it, so that a server which has read the conversation so far knows it
    again.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, source: str) -> str:
        """The name of a source; the source itself where the API takes it."""
        name = self._names.get(source)
        if name is None:
            name = self._names[source] = self._free(source)
            self._taken.add(name)
        return name

    def _free(self, source: str) -> str:
        name = source if is_name(source) else OTHER.sub("_", source).strip("_")[:LONGEST_NAME] or UNNAMED
        return f"{name[: LONGEST_NAME - DIGITS - 1]}_{_digest(source)}" if name in self._taken else name


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


BLANK: Final = " "  # in place of an empty text where none is taken
# Without this sentence small models take the result for a question, and make the same call again and again. It is part of
# every result and not only of the last, so that what a server has read stays the same.
AFTER_RESULTS: Final = "Now answer my question with this, or call another tool if something is still missing."


GO_ON: Final = "Go on."
CONTINUED: Final = "continue_final_message"  # vLLM's


def _is_models_turn_over(wire: Sequence[WireDict]) -> bool:
    """Whether the model spoke last; some servers put system messages at the start, wherever they stand."""
    last = next((message for message in reversed(wire) if message["role"] != "system"), None)
    return last is not None and last["role"] == "assistant" and "tool_calls" not in last


@dataclass(frozen=True, slots=True)
class Transformer:
    """Turns messages into those of the API, as a model and the client's settings have it."""

    settings: OpenAISettings

    def messages(
        self,
        messages: Sequence[LLMMessage],
        instructions: str | None = None,
        closing: str | None = None,
        *,
        is_continued: bool = False,
    ) -> list[WireDict]:
        """The messages of a request.

        One whose last word is the model's own gets a user's word behind it: many servers refuse it (llama.cpp and Claude
        with 400), and others go on with the old answer. Whoever speaks twice in a row sends such a conversation.

        Args:
            messages: the conversation.
            instructions: of the client's own, the same in every request of a conversation.
            closing: of the client's own, for this request.
            is_continued: whether the server is to write on at the end of the model's own last message.

        Raises:
            BadRequestError: an image for a model that sees none.
        """
        names = SpeakerNames()
        wire = [part for message in messages for part in self._message(message, names)]
        several = self.settings.info.get("multiple_system_messages", False)
        wire = placed(wire, several=several, instructions=instructions, closing=closing)
        if not is_continued and _is_models_turn_over(wire):
            wire.append({"role": "user", "content": GO_ON})
        return self._as_the_family_has_it(wire)

    def _message(self, message: LLMMessage, names: SpeakerNames) -> Iterator[WireDict]:
        if isinstance(message, SystemMessage):
            yield {"role": "system", "content": message.content}
        elif isinstance(message, UserMessage):
            yield {
                "role": "user",
                "content": self._user_content(message),
                **self._name(message.source, names),
            }
        elif isinstance(message, AssistantMessage):
            yield {
                "role": "assistant",
                **self._name(message.source, names),
                **self._assistant_content(message),
            }
        else:
            yield from self._results(message)

    def _user_content(self, message: UserMessage) -> str | list[WireDict]:
        prefix = f"{message.source} said:\n" if self.settings.add_name_prefixes else ""
        if isinstance(message.content, str):
            return prefix + message.content
        parts: list[WireDict] = [{"type": "text", "text": prefix}] if prefix else []
        return parts + [self._part(part) for part in message.content]

    def _part(self, part: str | Image) -> WireDict:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        if not self.settings.info["vision"]:
            raise BadRequestError(self.settings.model, "it takes no images (model_info['vision'])")
        return part.to_openai_format()

    def _assistant_content(self, message: AssistantMessage) -> WireDict:
        if isinstance(message.content, str):
            vendor = self._vendor(message)
            return {"content": message.content, **({} if vendor is None else vendor.message)}
        if self.settings.tells_tools_in_text:
            return {"content": "\n".join(call_as_text(call) for call in message.content)}
        vendor = self._vendor(message)
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **({} if vendor is None else vendor.calls.get(call.id, {})),
            }
            for call in message.content
        ]
        return {
            "content": message.thought,
            "tool_calls": calls,
            **({} if vendor is None else vendor.message),
        }

    def _vendor(self, message: AssistantMessage) -> Vendor | None:
        """What the maker of this model has put beside it; that of another one is for that one."""
        vendor = message.vendor
        return vendor if vendor is not None and vendor.maker == self.settings.maker else None

    def _results(self, message: FunctionExecutionResultMessage) -> Iterator[WireDict]:
        if not self.settings.tells_tools_in_text:
            for result in message.content:
                failed = {"is_error": True} if result.is_error and self.settings.marks_errors else {}
                yield {"role": "tool", "tool_call_id": result.call_id, "content": result.content, **failed}
            # The API takes no image in a tool's message.
            if shown := self._images(message):
                yield {"role": "user", "content": shown}
            return
        told = [
            f"{'Error' if result.is_error else 'Result'} of {result.name}: {result.content}"
            for result in message.content
        ]
        text = "\n".join((*told, AFTER_RESULTS))
        shown = self._images(message)
        yield {"role": "user", "content": [{"type": "text", "text": text}, *shown] if shown else text}

    def _images(self, message: FunctionExecutionResultMessage) -> list[WireDict]:
        """The images that tools returned, each with the name of its tool; none for a model that sees none."""
        if not self.settings.info["vision"]:
            return []
        return [
            part
            for result in message.content
            for image in result.images
            for part in (self._part(f"The image that {result.name} returned:"), self._part(image))
        ]

    def _name(self, source: str, names: SpeakerNames) -> Mapping[str, str]:
        if not self.settings.include_name_in_message or ModelFamily.is_mistral(self.settings.info["family"]):
            return {}
        return {"name": names.of(source)}

    def _as_the_family_has_it(self, wire: list[WireDict]) -> list[WireDict]:
        """Servers of Anthropic and Google refuse empty texts, Anthropic's also space at the end of the last answer.

        It is taken from every answer: the last one of this request is in the middle of the next.
        """
        family = self.settings.info["family"]
        if ModelFamily.is_claude(family):
            wire = [_without_space_at_end(message) for message in wire]
        if ModelFamily.is_claude(family) or ModelFamily.is_gemini(family):
            return [{**message, "content": message["content"] or BLANK} for message in wire]
        return wire


def _without_space_at_end(message: WireDict) -> WireDict:
    if message["role"] != "assistant":
        return message
    return {**message, "content": (message["content"] or "").rstrip()}


OutputFormat: TypeAlias = bool | type[BaseModel] | Mapping[str, Any] | None
"""True: a JSON object. False: text. A class: an object of it. A mapping: a `response_format` of the API as it is."""


@dataclass(frozen=True, slots=True)
class Output:
    """The form that one request asks for."""

    model: str
    format: OutputFormat = None

    def check(self, info: ModelInfo) -> None:
        """Refuse a form that the model can't make.

        Raises:
            BadRequestError: JSON of a model whose ModelInfo has none.
        """
        if self.format is True and not info["json_output"]:
            raise BadRequestError(self.model, "it has no JSON output (model_info['json_output'])")
        if self.class_ is not None and not info["structured_output"]:
            reason = "it has no structured output (model_info['structured_output']); use json_output=True"
            raise BadRequestError(self.model, reason)

    @property
    def class_(self) -> type[BaseModel] | None:
        """The class that the answer has to be an object of."""
        return self.format if isinstance(self.format, type) else None

    @property
    def is_json(self) -> bool:
        """Whether the answer has to be JSON."""
        return bool(self.format)

    def response_format(self) -> Mapping[str, Any] | None:
        """The argument of the API; None leaves it out."""
        if isinstance(self.format, Mapping) or self.format is None:
            return self.format
        if isinstance(self.format, bool):
            return {"type": "json_object" if self.format else "text"}
        return class_format(self.format)

    def checked(self, text: str, *, cut_off: bool = False) -> str:
        """The text of an answer, without a fence around its JSON.

        Args:
            text: as the model said it.
            cut_off: whether the limit of tokens ended it.

        Raises:
            BadResponseError: it has another form. The error says at which place, and does not repeat the answer.
        """
        if self.format is not True and self.class_ is None:
            return text
        bare = without_fence(text)
        problem = self._problem(bare)
        if problem is None:
            return bare
        hint = "; it was cut off at the limit of tokens: raise max_tokens" if cut_off else ""
        raise BadResponseError(self.model, f"the answer is {problem}{hint}")

    def _problem(self, text: str) -> str | None:
        if self.class_ is not None:
            return _misfit(self.class_, text)
        try:
            return None if isinstance(read_json(text), dict) else "no JSON object"
        except ValueError:
            return "no JSON"


def class_format(class_: type[BaseModel]) -> dict[str, Any]:
    """The `response_format` for objects of a class, strict unless an object in it may have any keys."""
    schema = class_.model_json_schema()
    strict = strict_schema(schema)
    return schema_format(class_.__name__, schema if strict is None else strict, strict=strict is not None)


def schema_format(name: str, schema: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    """The `response_format` for a schema."""
    inner = {"name": as_tool_name(name), "schema": schema, "strict": strict}
    return {"type": "json_schema", "json_schema": inner}


def _misfit(class_: type[BaseModel], text: str) -> str | None:
    try:
        class_.model_validate_json(text)
    except ValidationError as error:
        return f"no {class_.__name__}: {first_problem(error)}"
    return None


FINISH_REASONS: Final[Mapping[str, FinishReasons]] = {
    "stop": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "function_calls",
    "function_call": "function_calls",
    "function_calls": "function_calls",
    "content_filter": "content_filter",
}
REPLY_SCHEMA_NAME: Final = "reply"
THINKING: Final = ("gpt-5", "o1", "o3", "o4")
"""Families for which OpenAI refuses `max_tokens`; what limits their answers is `max_completion_tokens`."""


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """The meaning of an answer.

    Attributes:
        result: as the caller gets it, be it an error.
        objection: what is wrong with it, so that it is better to ask again; None: nothing.
    """

    result: CreateResult | BadResponseError
    objection: Objection | None = None

    def settled(self) -> CreateResult:
        """The result, when the model is not asked again.

        Raises:
            BadResponseError: the answer is not usable.
        """
        if isinstance(self.result, BadResponseError):
            raise self.result
        return self.result


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request as the API takes it.

    Attributes:
        arguments: of the openai package's `create`.
        output: the form of the answer.
        tools: names of the tools that may be called.
        told: what the conversation before it says about calls.
        uses_schema: whether every answer is held to the schema of a call or an answer.
        may_call: whether the request offered tools that may be called.
    """

    settings: OpenAISettings
    arguments: Mapping[str, Any]
    output: Output
    tools: tuple[str, ...]
    told: KnownCalls
    uses_schema: bool = False
    may_call: bool = True

    @classmethod
    def of(cls, request: ModelRequest, settings: OpenAISettings) -> ChatRequest:
        """Make it of a request to a client.

        Raises:
            BadRequestError: its parts do not fit together, or the model can't do it.
        """
        extra = dict(request.extra_create_args)
        check_arguments(settings.model, extra, settings.request_arguments)
        refuse_audio(settings.model, {**settings.create_arguments, **extra})
        offer = ToolOffer.of(request, settings)
        output = Output(settings.model, _format(request, extra, settings))
        output.check(settings.info)
        uses_schema = bool(offer.tools) and settings.tool_mode == "schema"
        arguments: dict[str, Any] = {"model": settings.model, **settings.create_arguments, **extra}
        beside = arguments.get("extra_body") or {}
        arguments["messages"] = Transformer(settings).messages(
            request.messages,
            offer.in_words,
            offer.closing,
            is_continued=bool(beside.get(CONTINUED)),
        )
        arguments["response_format"] = (
            _reply_format(offer, output) if uses_schema else output.response_format()
        )
        arguments |= offer.arguments(request)
        if settings.info["family"] in THINKING and "max_tokens" in arguments:
            arguments.setdefault("max_completion_tokens", arguments.pop("max_tokens"))
        given = {name: value for name, value in arguments.items() if value is not None}
        told = KnownCalls.of(request.messages, offer.tools)
        return cls(settings, given, output, offer.callable, told, uses_schema, bool(offer.callable))

    def stream_arguments(self, include_usage: bool | None) -> dict[str, Any]:
        """The arguments for a stream."""
        usage = self.settings.include_stream_usage if include_usage is None else include_usage
        options = {**({"include_usage": True} if usage else {}), **self.arguments.get("stream_options", {})}
        return {**self.arguments, "stream": True, **({"stream_options": options} if options else {})}

    @property
    def streams_text(self) -> bool:
        """Whether pieces of the answer are the answer's text, and not JSON around it."""
        return not self.uses_schema

    @property
    def text_may_be_call(self) -> bool:
        """Whether a text of the answer is read as a call, if it is nothing else."""
        if self.settings.tool_mode != "lenient":
            return False
        return bool(self.tools) or (bool(self.told.known) and not self.output.is_json)

    # The answer

    def read(self, answer: ServerAnswer | None) -> AnswerReading:
        """The meaning of an answer.

        Raises:
            BadResponseError: there is none.
        """
        if answer is None:
            raise BadResponseError(self.settings.model, "the answer has no choices")
        thought, text = answer.reasoning or None, answer.text
        if thought is None:
            thought, text = split_thought(text, opened=self.settings.info["family"] == ModelFamily.R1)
        calls = answer.calls
        if not calls and (self.tools or self.uses_schema):
            calls, text = self._read(text)
        finish: FinishReasons = FINISH_REASONS.get((answer.finish or "").lower(), "unknown")
        if calls:
            thought = "\n".join(part for part in (thought, text.strip()) if part) or None
            return self._reading_of_calls(answer, calls, thought)
        if answer.refusal:
            return AnswerReading(self._result(answer, answer.refusal, "content_filter", thought))
        if finish == "content_filter":
            return AnswerReading(self._result(answer, text, finish, thought))
        return self._reading_of_text(answer, text, finish, thought)

    def _read(self, text: str) -> tuple[tuple[FunctionCall, ...], str]:
        if self.settings.tool_mode == "schema":
            return read_reply(text, self.tools)
        if self.settings.tool_mode == "lenient":
            return read_calls(text, self.tools)
        return (), text

    def _reading_of_calls(
        self, answer: ServerAnswer, calls: tuple[FunctionCall, ...], thought: str | None
    ) -> AnswerReading:
        """The meaning of calls. One that was answered already is left out, unless the model insists on it."""
        if not self.may_call and self.settings.tool_mode != "native":
            stray = self.told.unoffered(self.settings.model, calls[0])
            return AnswerReading(stray.error, stray)
        new = calls if self.settings.tool_mode == "native" else self.told.new(calls)
        if not answer.calls and calls[0] not in new:
            new = ()  # a small model that goes round in circles, and makes up what it writes behind the first call
        result = self._result(answer, list(new or calls), "function_calls", thought)
        return AnswerReading(result, None if new else self.told.repeated(self.settings.model, calls))

    def _reading_of_text(
        self, answer: ServerAnswer, text: str, finish: FinishReasons, thought: str | None
    ) -> AnswerReading:
        """The meaning of an answer that is a text, which may have the wrong form."""
        cut_off = finish == "length"
        if not self.output.is_json and self.settings.tool_mode != "native":
            stray = self.told.stray_call(self.settings.model, text, self.tools)
            if stray is not None:
                return AnswerReading(stray.error, stray)
        try:
            checked = self.output.checked(text, cut_off=cut_off)
        except BadResponseError as error:
            if cut_off:
                raise  # another answer would be cut off as well
            return AnswerReading(
                error, Objection(error, f"{error.reason[0].upper()}{error.reason[1:]}. Answer again.")
            )
        return AnswerReading(self._result(answer, checked, finish, thought))

    def _result(
        self,
        answer: ServerAnswer,
        content: str | list[FunctionCall],
        finish: FinishReasons,
        thought: str | None,
    ) -> CreateResult:
        return CreateResult(
            finish_reason=finish,
            content=content,
            usage=answer.usage,
            cached=False,
            logprobs=None if answer.logprobs is None else list(answer.logprobs),
            thought=thought,
            vendor=self._vendor(answer),
            citations=list(answer.citations),
        )

    def _vendor(self, answer: ServerAnswer) -> Vendor | None:
        """What the maker wants back with the answer."""
        beside = dict(answer.beside)
        if answer.calls:
            if beside:
                beside["content"] = answer.text or None  # the thought has the reasoning as well
        else:
            # DeepSeek's older models refuse reasoning that is sent back, which no tool loop needs.
            beside.pop("reasoning_content", None)
        if not (beside or answer.beside_calls):
            return None
        return Vendor(maker=self.settings.maker, message=beside, calls=dict(answer.beside_calls))

    def corrected(self, answer: ServerAnswer, objection: Objection) -> ChatRequest:
        """The request again, with the answer and what is wrong with it at its end."""
        said = answer.text or "\n".join(call_as_text(call) for call in answer.calls)
        messages = [
            *self.arguments["messages"],
            {"role": "assistant", "content": said.rstrip()},
            {"role": "user", "content": objection.sentence},
        ]
        arguments = {**self.arguments, "messages": messages}
        if objection.ends_calls:
            return self._without_calls(arguments)
        return replace(self, arguments=arguments)

    def _without_calls(self, arguments: Mapping[str, Any]) -> ChatRequest:
        """A request that asks for an answer and offers nothing to call."""
        left_out = ("tools", "tool_choice", "parallel_tool_calls")
        given = {name: value for name, value in arguments.items() if name not in left_out}
        if self.uses_schema:
            given["response_format"] = _schema_of_replies((), self.output, required=False)
        return replace(self, arguments=given, tools=())


def _format(request: ModelRequest, extra: Mapping[str, Any], settings: OpenAISettings) -> OutputFormat:
    """The form of the answer: by this request's arguments, else by `json_output`, else by the client's arguments."""
    if "response_format" in extra:
        given: OutputFormat = extra["response_format"]
        return given
    if request.json_output is not None:
        return request.json_output
    return settings.create_arguments.get("response_format")


def _reply_format(offer: ToolOffer, output: Output) -> Mapping[str, Any]:
    return _schema_of_replies(offer.called, output, required=offer.required)


def _schema_of_replies(tools: ToolSchemas, output: Output, *, required: bool) -> Mapping[str, Any]:
    answer = None if output.class_ is None else output.class_.model_json_schema()
    schema = reply_schema(tools, answer, required=required)
    # Not made strict: a tool's optional arguments stay optional, and servers hold models to the schema nevertheless.
    return schema_format(REPLY_SCHEMA_NAME, schema, strict=False)
