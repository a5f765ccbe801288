"""One request to the chat API, and the meaning of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from callboard.memory.llm_messages import FunctionCall
from callboard.models.errors import BadResponseError
from callboard.models.family import ModelFamily
from callboard.models.request import ModelRequest
from callboard.models.types import CreateResult, FinishReasons

from .answer import Answer
from .calls_in_text import call_as_text, read_calls, read_reply, reply_schema
from .markup import split_thought
from .objections import Conversation, Objection, unoffered_call
from .offer import Offer, ToolSchemas
from .output import Output, OutputFormat, schema_format
from .settings import REQUEST_ARGUMENTS, OpenAISettings, check_arguments
from .transform import Transformer

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


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer means.

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
    told: Conversation
    uses_schema: bool = False
    may_call: bool = True

    @classmethod
    def of(cls, request: ModelRequest, settings: OpenAISettings) -> ChatRequest:
        """Make it of a request to a client.

        Raises:
            BadRequestError: its parts do not fit together.
            UnsupportedFeatureError: the model can't do it.
        """
        extra = dict(request.extra_create_args)
        check_arguments(settings.model, extra, REQUEST_ARGUMENTS)
        offer = Offer.of(request, settings)
        output = Output(settings.model, _format(request, extra, settings))
        output.check(settings.info)
        uses_schema = bool(offer.tools) and settings.tool_mode == "schema"
        arguments: dict[str, Any] = {"model": settings.model, **settings.create_arguments, **extra}
        arguments["messages"] = Transformer(settings).messages(
            request.messages, offer.in_words, offer.closing
        )
        arguments["response_format"] = (
            _reply_format(offer, output) if uses_schema else output.response_format()
        )
        arguments |= offer.arguments(request)
        given = {name: value for name, value in arguments.items() if value is not None}
        told = Conversation.of(request.messages, offer.tools)
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

    # The answer

    def read(self, answer: Answer | None) -> Reading:
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
            return Reading(_result(answer, answer.refusal, "content_filter", thought))
        if finish == "content_filter":
            return Reading(_result(answer, text, finish, thought))
        return self._reading_of_text(answer, text, finish, thought)

    def _read(self, text: str) -> tuple[tuple[FunctionCall, ...], str]:
        if self.settings.tool_mode == "schema":
            return read_reply(text, self.tools)
        if self.settings.tool_mode == "lenient":
            return read_calls(text, self.tools)
        return (), text

    def _reading_of_calls(
        self, answer: Answer, calls: tuple[FunctionCall, ...], thought: str | None
    ) -> Reading:
        """The meaning of calls. One that was answered already is left out, unless the model insists on it."""
        if not self.may_call and self.settings.tool_mode != "native":
            stray = unoffered_call(self.settings.model, calls[0])
            return Reading(stray.error, stray)
        new = calls if self.settings.tool_mode == "native" else self.told.new(calls)
        if not answer.calls and calls[0] not in new:
            new = ()  # a small model that goes round in circles, and makes up what it writes behind the first call
        result = _result(answer, list(new or calls), "function_calls", thought)
        return Reading(result, None if new else self.told.repeated(self.settings.model, calls))

    def _reading_of_text(
        self, answer: Answer, text: str, finish: FinishReasons, thought: str | None
    ) -> Reading:
        """The meaning of an answer that is a text, which may have the wrong form."""
        cut_off = finish == "length"
        if not self.output.is_json and self.settings.tool_mode != "native":
            stray = self.told.stray_call(self.settings.model, text, self.tools)
            if stray is not None:
                return Reading(stray.error, stray)
        try:
            checked = self.output.checked(text, cut_off=cut_off)
        except BadResponseError as error:
            if cut_off:
                raise  # another answer would be cut off as well
            return Reading(
                error, Objection(error, f"{error.reason[0].upper()}{error.reason[1:]}. Answer again.")
            )
        return Reading(_result(answer, checked, finish, thought))

    def corrected(self, answer: Answer, objection: Objection) -> ChatRequest:
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


def _result(
    answer: Answer, content: str | list[FunctionCall], finish: FinishReasons, thought: str | None
) -> CreateResult:
    return CreateResult(
        finish_reason=finish,
        content=content,
        usage=answer.usage,
        cached=False,
        logprobs=None if answer.logprobs is None else list(answer.logprobs),
        thought=thought,
    )


def _format(request: ModelRequest, extra: Mapping[str, Any], settings: OpenAISettings) -> OutputFormat:
    """The form of the answer: by this request's arguments, else by `json_output`, else by the client's arguments."""
    if "response_format" in extra:
        given: OutputFormat = extra["response_format"]
        return given
    if request.json_output is not None:
        return request.json_output
    return settings.create_arguments.get("response_format")


def _reply_format(offer: Offer, output: Output) -> Mapping[str, Any]:
    return _schema_of_replies(offer.called, output, required=offer.required)


def _schema_of_replies(tools: ToolSchemas, output: Output, *, required: bool) -> Mapping[str, Any]:
    answer = None if output.class_ is None else output.class_.model_json_schema()
    schema = reply_schema(tools, answer, required=required)
    # Not made strict: a tool's optional arguments stay optional, and servers hold models to the schema nevertheless.
    return schema_format(REPLY_SCHEMA_NAME, schema, strict=False)
