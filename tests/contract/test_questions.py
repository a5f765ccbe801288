"""Questions to people, in a run of one process and on a server: one text for both."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from callboard import (
    ClosureContext,
    InputAnsweredError,
    InputExpiredError,
    InputRequestUnknownError,
    InputValueError,
    InputWithdrawnError,
    MessageContext,
    NotAllowedToAnswerError,
    Question,
    TopicId,
)
from callboard.core.people import ask_person
from callboard.errors import DeclarationError
from callboard.runs.local import ProcessQuestion, ProcessQuestions
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure, stored

REAL = pytest.mark.real_server("what it is about has nothing to do with the server, and memory:// is slow")


class Asker(ABC):
    """Asks one question after the other.

    Attributes:
        came: What came of the last one: the answer, or an error.
    """

    def __init__(self) -> None:
        self.came: Any = None

    @abstractmethod
    async def ask(self, **fields: Any) -> str:
        """Asks; returns the id of the question."""

    @abstractmethod
    async def answer(self, input_id: str, value: Any, by: str = "") -> None:
        """Answers."""

    @abstractmethod
    async def withdraw(self, input_id: str) -> None:
        """Nobody waits for an answer any more."""

    async def over(self) -> Any:
        """What came of the question."""
        await eventually(lambda: self.came is not None)
        return self.came


class Here(Asker):
    """In this process."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: list[ProcessQuestion] = []
        self._questions = ProcessQuestions(self._asked.append, lambda asked, value: None)
        self._waiting: asyncio.Task[None] | None = None

    async def ask(self, **fields: Any) -> str:
        count = len(self._asked)
        self._waiting = asyncio.create_task(self._ask(Question(name="one", **fields)))
        await eventually(lambda: len(self._asked) > count or self.came is not None)
        return self._asked[-1].id if len(self._asked) > count else ""

    async def _ask(self, question: Question) -> None:
        try:
            self.came = await self._questions.ask(question)
        except Exception as error:
            self.came = error

    async def answer(self, input_id: str, value: Any, by: str = "") -> None:
        self._questions.answer(input_id, value, by)

    async def withdraw(self, input_id: str) -> None:
        assert self._waiting is not None
        self._waiting.cancel()
        await asyncio.gather(self._waiting, return_exceptions=True)


class OnServer(Asker):
    """In a handler."""

    def __init__(self, runtimes: Runtimes) -> None:
        super().__init__()
        self._runtimes = runtimes
        self._question: Question | None = None

    async def ask(self, **fields: Any) -> str:
        self._runtime = await self._runtimes.started()
        self._question = Question(name="one", **fields)
        await closure(self._runtime, "asker", self._on_note, "work")
        await self._runtime.publish_message(Note(), TopicId("work", "a"))
        ids: list[str] = []

        async def is_asked() -> bool:
            names = await stored(self._runtime, "input:")  # also one that has expired meanwhile
            ids[:] = [name.removeprefix("input:") for name in names]
            return bool(ids) or self.came is not None

        await eventually(is_asked)
        return ids[0] if ids else ""

    async def _on_note(self, agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        assert self._question is not None
        try:
            self.came = await ask_person(self._question, ctx)
        except Exception as error:
            self.came = error

    async def answer(self, input_id: str, value: Any, by: str = "") -> None:
        await self._runtime.inputs.answer(input_id, value, by=by)

    async def withdraw(self, input_id: str) -> None:
        await self._runtime.inputs.withdraw(input_id)


class Order(BaseModel):
    number: Annotated[int, Field(ge=1)]


Case = Callable[[Asker], Awaitable[None]]


async def first_answer_counts(asker: Asker) -> None:
    one = await asker.ask(text="Well?")
    await asker.answer(one, "yes", "ada")
    with pytest.raises(InputAnsweredError, match="before by ada") as raised:
        await asker.answer(one, "no", "bob")
    assert raised.value.at > 1.7e9
    assert await asker.over() == "yes"


async def another_question_is_not_answered(asker: Asker) -> None:
    one = await asker.ask(text="Well?")
    with pytest.raises(InputRequestUnknownError):
        await asker.answer(f"{one}x", "yes")
    await asker.answer(one, "no")
    assert await asker.over() == "no"


async def choices_are_all_there_is(asker: Asker) -> None:
    one = await asker.ask(text="Well?", choices=("yes", "no"))
    with pytest.raises(InputValueError, match="one of yes, no"):
        await asker.answer(one, "perhaps")
    await asker.answer(one, "no")
    assert await asker.over() == "no"


async def what_does_not_fit_leaves_it_open(asker: Asker) -> None:
    one = await asker.ask(text="Which?", answer_type=Order)
    for wrong in ("7", {"number": "seven"}, {"number": 0}, {}, object()):
        with pytest.raises(InputValueError):
            await asker.answer(one, wrong)
    await asker.answer(one, Order(number=7))
    assert await asker.over() == Order(number=7)


async def a_number_is_no_text_and_a_text_no_truth(asker: Asker) -> None:
    one = await asker.ask(text="Sure?", answer_type=bool)
    for wrong in ("yes", 1, None):
        with pytest.raises(InputValueError):
            await asker.answer(one, wrong)
    await asker.answer(one, True)
    assert await asker.over() is True


async def only_who_was_asked_answers(asker: Asker) -> None:
    one = await asker.ask(text="Well?", to=("ada", "bob"))
    for by in ("", "eve"):
        with pytest.raises(NotAllowedToAnswerError):
            await asker.answer(one, "yes", by)
    await asker.answer(one, "yes", "bob")
    assert await asker.over() == "yes"


async def late_is_too_late(asker: Asker) -> None:
    one = await asker.ask(text="Well?", timeout=0.05)
    assert isinstance(await asker.over(), InputExpiredError)
    with pytest.raises(InputExpiredError):
        await asker.answer(one, "yes")


async def a_default_takes_its_place(asker: Asker) -> None:
    one = await asker.ask(text="Which?", timeout=0.05, answer_type=Order, default=Order(number=3))
    assert await asker.over() == Order(number=3)
    with pytest.raises(InputExpiredError):
        await asker.answer(one, Order(number=4))


async def withdrawn_is_withdrawn(asker: Asker) -> None:
    one = await asker.ask(text="Well?")
    await asker.withdraw(one)
    with pytest.raises(InputWithdrawnError):
        await asker.answer(one, "yes")


async def who_asks_nonsense_is_told_so(asker: Asker) -> None:
    await asker.ask(text="Well?", choices=("yes", "no"), default="perhaps")
    assert isinstance(await asker.over(), DeclarationError)


async def a_choice_that_is_no_answer_is_refused(asker: Asker) -> None:
    await asker.ask(text="How many?", choices=("1", "many"), answer_type=int)
    assert "its choice 'many' does not fit its answer_type" in str(await asker.over())


async def a_default_that_is_no_answer_is_refused(asker: Asker) -> None:
    await asker.ask(text="Well?", answer_type=bool, default="perhaps")
    assert "its default does not fit its answer_type" in str(await asker.over())


CASES: list[Case] = [
    first_answer_counts,
    another_question_is_not_answered,
    choices_are_all_there_is,
    what_does_not_fit_leaves_it_open,
    a_number_is_no_text_and_a_text_no_truth,
    only_who_was_asked_answers,
    late_is_too_late,
    a_default_takes_its_place,
    withdrawn_is_withdrawn,
    who_asks_nonsense_is_told_so,
    a_choice_that_is_no_answer_is_refused,
    a_default_that_is_no_answer_is_refused,
]


@pytest.mark.parametrize("case", CASES)
async def test_here(case: Case) -> None:
    await case(Here())


@REAL
@pytest.mark.parametrize("case", CASES)
async def test_on_a_server(case: Case, runtimes: Runtimes) -> None:
    await case(OnServer(runtimes))
