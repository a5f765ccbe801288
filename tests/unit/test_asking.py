"""Questions for people, where a function asks them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from callboard.core.people import Question, ask_person, asking_by
from callboard.errors import CannotAskError

HOW_MANY = Question(text="How many?", name="how many", answer_type=int)


async def test_a_function_is_asked_be_it_async_or_not() -> None:
    async def slowly(question: Question) -> int:
        return len(question.text)

    with asking_by(slowly):
        assert await ask_person(HOW_MANY, None) == 9
    with asking_by(lambda question: "17"):
        assert await ask_person(HOW_MANY, None) == 17
        with asking_by(None):  # as outside of it
            assert await ask_person(HOW_MANY, None) == 17


async def test_what_is_no_answer_is_refused() -> None:
    with asking_by(lambda question: "many"), pytest.raises(ValidationError, match="integer"):
        await ask_person(HOW_MANY, None)


async def test_where_nobody_can_be_asked_the_error_says_what_to_do() -> None:
    with pytest.raises(CannotAskError, match=r"How many\? .*on_input="):
        await ask_person(HOW_MANY, None)
