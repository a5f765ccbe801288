"""An answer put together from the chunks of a stream."""

from __future__ import annotations

from dataclasses import dataclass

from callboard.models.types import ChatCompletionTokenLogprob, RequestUsage

from .answer import NOTHING_USED, Answer, arguments_text, make_call, usage_of
from .markup import CLOSING, OPENING
from .wire import WireAnswer, WireCall, WireMessage


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


class Assembler:
    """Takes the chunks of one stream, in their order.

    Reasoning is put between `<think>` and `</think>` in the pieces, as AutoGen does.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
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
        pieces: list[str] = []
        if delta.thinking:
            self._reasoning.append(delta.thinking)
            pieces.append(delta.thinking if self._thinking else OPENING + delta.thinking)
            self._thinking = True
        if self._thinking and (delta.content or delta.tool_calls or self.is_complete):
            pieces.append(CLOSING)
            self._thinking = False
        if delta.content:
            self._text.append(delta.content)
            pieces.append(delta.content)
        return pieces

    def _add_call(self, delta: WireCall) -> None:
        call = self._call_of(delta)
        call.id = call.id or delta.id or ""
        function = delta.function
        if function is None:
            return
        # A name may come in pieces, and some servers repeat it in every chunk.
        if function.name and function.name != call.name:
            call.name += function.name
        call.arguments += arguments_text(function)

    def _call_of(self, delta: WireCall) -> _Call:
        """The call that a piece belongs to.

        Some servers count no index, or always the same one.
        """
        known = self._by_index.get(delta.index) if delta.index is not None else self._last
        if known is not None and _continues(known, delta):
            return known
        call = _Call()
        self._calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        return call

    @property
    def _last(self) -> _Call | None:
        return self._calls[-1] if self._calls else None

    def answer(self) -> Answer:
        """The answer so far."""
        return Answer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            refusal="".join(self._refusal),
            calls=tuple(make_call(call.id, call.name, call.arguments) for call in self._calls),
            finish=self._finish,
            usage=self._usage,
            logprobs=None if self._logprobs is None else tuple(self._logprobs),
        )


def _continues(known: _Call, delta: WireCall) -> bool:
    """Whether a piece belongs to a call: by its id, or because it does not begin with a name of its own."""
    if known.id and delta.id:
        return known.id == delta.id
    name = delta.function.name if delta.function else None
    return not (name and known.arguments and (not known.id or name != known.name))
