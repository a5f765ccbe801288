"""Putting chunks together, whatever their sizes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from callboard.memory.llm_messages import FunctionCall
from callboard.models.openai.answer import Assembler, WireAnswer

TEXTS = st.text(max_size=20)


def chunk(finish: str | None = None, **delta: Any) -> WireAnswer:
    return WireAnswer.model_validate({"choices": [{"delta": delta, "finish_reason": finish}]})


@given(st.lists(TEXTS), st.lists(TEXTS))
def test_pieces_and_answer_say_the_same(thoughts: list[str], texts: list[str]) -> None:
    assembler = Assembler()
    pieces: list[str] = []

    for text in thoughts:
        pieces += assembler.add(chunk(reasoning_content=text))
    for text in texts:
        pieces += assembler.add(chunk(content=text))
    assert not assembler.is_complete
    pieces += assembler.add(chunk(finish="stop"))

    answer = assembler.answer()
    assert (answer.reasoning, answer.text) == ("".join(thoughts), "".join(texts))
    around = f"<think>{answer.reasoning}</think>" if answer.reasoning else ""
    assert "".join(pieces) == around + answer.text
    assert assembler.is_complete


@given(st.lists(st.tuples(st.integers(0, 2), TEXTS), max_size=20))
def test_arguments_come_together_in_any_order_of_calls(parts: list[tuple[int, str]]) -> None:
    assembler = Assembler()
    for index in range(3):
        start = {"index": index, "id": f"x{index}", "function": {"name": f"f{index}"}}
        assembler.add(chunk(tool_calls=[start]))

    for index, text in parts:
        assembler.add(chunk(tool_calls=[{"index": index, "function": {"arguments": text}}]))

    expected = ["".join(text for at, text in parts if at == index) or "{}" for index in range(3)]
    assert assembler.answer().calls == tuple(
        FunctionCall(f"x{index}", arguments, f"f{index}") for index, arguments in enumerate(expected)
    )


def test_reasoning_may_begin_again() -> None:
    assembler = Assembler()
    pieces: list[str] = []
    for delta in ({"reasoning": "a"}, {"content": "b"}, {"reasoning": "c"}, {"content": "d"}):
        pieces += assembler.add(chunk(**delta))

    assert "".join(pieces) == "<think>a</think>b<think>c</think>d"
    assert (assembler.answer().reasoning, assembler.answer().text) == ("ac", "bd")


def test_chunks_without_a_choice_or_a_delta() -> None:
    assembler = Assembler()

    odd: list[dict[str, Any]] = [{}, {"choices": []}, {"choices": None}, {"choices": [{}]}]

    for given_ in (*odd, {"choices": [{"delta": None}]}):
        assert assembler.add(WireAnswer.model_validate(given_)) == []

    assert assembler.answer().text == ""
