"""Any JSON at all is an answer or an error of its kind."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st
from pydantic import ValidationError

from callboard.models.openai.answer import Assembler, ServerAnswer, WireAnswer, WireError, whole_answer

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANSWER_KEYS = ("choices", "message", "delta", "content", "finish_reason", "logprobs", "refusal", "reasoning")
CALL_KEYS = ("tool_calls", "function", "name", "arguments", "index", "id", "usage", "prompt_tokens", "error")
KEYS = st.sampled_from((*ANSWER_KEYS, *CALL_KEYS))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
CALLS = st.fixed_dictionaries(
    {}, optional={"index": VALUES, "id": VALUES, "function": st.dictionaries(KEYS, VALUES, max_size=3)}
)
MESSAGES = st.fixed_dictionaries(
    {}, optional={"content": VALUES, "tool_calls": st.lists(CALLS, max_size=3), "reasoning": VALUES}
)
CHOICES = st.fixed_dictionaries(
    {}, optional={"message": MESSAGES, "delta": MESSAGES, "finish_reason": VALUES}
)
ANSWERS = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICES | VALUES, max_size=2), "usage": VALUES, "error": VALUES}
)


@given(ANSWERS | VALUES)
def test_any_body_can_be_read(value: Any) -> None:
    try:
        answer = whole_answer(json.dumps(value))
    except ValidationError:
        return
    assert answer is None or isinstance(answer, ServerAnswer | WireError)


@given(st.binary(max_size=30))
def test_any_bytes_can_be_read(body: bytes) -> None:
    try:
        whole_answer(body)
    except ValidationError:
        return


@given(st.lists(ANSWERS | VALUES, max_size=4))
def test_any_chunks_can_be_read(chunks: list[Any]) -> None:
    assembler = Assembler()
    for chunk in chunks:
        try:
            read = WireAnswer.model_validate(chunk)
        except ValidationError:
            continue
        assert all(isinstance(piece, str) for piece in assembler.add(read))

    assert isinstance(assembler.answer(), ServerAnswer)
