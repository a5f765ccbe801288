import pytest

from callboard.models.openai.answer import split_thought


@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("<think>two\nlines</think>\n\nanswer", "two\nlines", "answer"),
        ("  <think>a</think>b", "a", "b"),
        ("<think></think>b", None, "b"),
        ("<think>never ends", "never ends", ""),
        ("answer", None, "answer"),
        (" answer ", None, " answer "),
        ("The tags are <think> and </think>.", None, "The tags are <think> and </think>."),
        # AutoGen strips these letters off the reasoning.
        ("<think>think hint</think>knight", "think hint", "knight"),
    ],
)
def test_reasoning_at_the_start_is_separated(text: str, thought: str | None, rest: str) -> None:
    assert split_thought(text) == (thought, rest)


@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("it begins in the prompt</think>answer", "it begins in the prompt", "answer"),
        ("<think>a</think>b", "a", "b"),
        ("no reasoning", None, "no reasoning"),
    ],
)
def test_reasoning_may_have_begun_in_the_prompt(text: str, thought: str | None, rest: str) -> None:
    assert split_thought(text, opened=True) == (thought, rest)
