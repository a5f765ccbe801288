import pytest

from callboard.models.openai.answer import as_tool_name, is_name


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("a-b_C9", True),
        ("", False),
        ("a b", False),
        ("ä", False),
        ("a\n", False),
        ("a" * 64, True),
        ("a" * 65, False),
    ],
)
def test_names_that_the_api_takes(text: str, good: bool) -> None:
    assert is_name(text) is good


def test_a_name_that_a_model_made_up_can_be_sent_back() -> None:
    assert as_tool_name("functions.get weather") == "functions_get_weather"
    assert is_name(as_tool_name("ä" * 100))
