from __future__ import annotations

from hypothesis import given, strategies as st

from callboard.models.openai.answer import is_name
from callboard.models.openai.chat_request import SpeakerNames


@given(st.lists(st.text(max_size=80), max_size=8))
def test_every_source_has_a_name_of_its_own_that_the_api_takes(sources: list[str]) -> None:
    names = SpeakerNames()
    made = {source: names.of(source) for source in sources}

    assert all(is_name(name) for name in made.values())
    assert len(set(made.values())) == len(made)
    assert {source: names.of(source) for source in reversed(sources)} == made


def test_long_sources_that_begin_the_same() -> None:
    names = SpeakerNames()
    first, second = names.of("a" * 100), names.of("a" * 101)
    assert first == "a" * 64
    assert second != first
    assert len(second) == 64
