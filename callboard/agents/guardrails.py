"""Guardrails of an assistant: their verdicts, their record, and the people who decide."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from callboard.core.answers import CONSENT, Consent
from callboard.core.people import Question, ask_person, can_ask
from callboard.memory.llm_messages import FunctionCall
from callboard.messages.chat import BaseChatMessage
from callboard.messages.events import read_message
from callboard.runtime.steps import NumberedStep, running_context

from .errors import UserInputError

__all__ = []


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Passed:
    """It may go on as it is; None says the same."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It must not go on.

    Attributes:
        reason: Why. A refused task is answered with it, a refused call has it as its result, and the model of a refused
            answer reads it and tries again.
        stops: Whether a refused task is answered with a `StopMessage`, which ends a conversation that has a
            `TextMentionTermination` or `StopMessageTermination`; else with a `TextMessage`.
    """

    reason: str
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Changed(Generic[T_co]):
    """Something else goes on in its place.

    Attributes:
        value: It: of the same kind as what was checked.
    """

    value: T_co


@dataclass(frozen=True, slots=True)
class Asks:
    """A person has to decide; see `AssistantAgent.on_guardrail_asks`.

    Attributes:
        question: For the person.
    """

    question: str


Verdict: TypeAlias = Passed | Refused | Changed[T] | Asks | None
"""Verdict of a guardrail about a T."""

Decision: TypeAlias = Passed | Refused
"""Answers that a person may give."""


class Guardrail:
    """Checks an assistant's tasks, calls or answers: override what it is to check; the rest passes.

    In a handler of the bus what it says is recorded, so that another attempt at the message does not ask it again. For
    checks that are one function or one agent there are `TaskGuardrail`, `CallGuardrail` and `AnswerGuardrail`.
    """

    async def check_task(self, task: Sequence[BaseChatMessage]) -> Verdict[Sequence[BaseChatMessage]]:
        """Look at what is new, before the assistant hears it.

        Args:
            task: The messages, at least one.

        Returns:
            Refused: the assistant says why, remembers nothing of it, and asks no model. Changed: the messages in their
            place.
        """
        return None

    async def check_call(self, call: FunctionCall) -> Verdict[FunctionCall]:
        """Look at a call that the model asks for, handoffs included, before it is made.

        Args:
            call: Its name, and its arguments as the tool takes them, with defaults, as JSON. Those that don't fit are as
                the model wrote them, and may be no JSON; such a call fails.

        Returns:
            Refused: the reason is the result of the call, the other calls are made. Changed: the call in its place, with
            the same id.
        """
        return None

    async def check_answer(self, answer: BaseChatMessage) -> Verdict[BaseChatMessage]:
        """Look at an answer before anybody sees it: the pieces of a streamed one are not shown, where this is overridden.

        Args:
            answer: What the assistant is about to say; handoffs are checked as calls.

        Returns:
            Refused: the model reads why, and writes another one. Changed: the message in its place.
        """
        return None

    @property
    def checks_answers(self) -> bool:
        """Whether `check_answer` is overridden."""
        return type(self).check_answer is not Guardrail.check_answer


ShownCall: TypeAlias = Callable[[FunctionCall], Awaitable[FunctionCall]]
"""Makes of a call that a model wrote the one that its tool would run."""


async def _seen(
    check: Callable[[FunctionCall], Awaitable[Verdict[FunctionCall]]], shown: ShownCall, call: FunctionCall
) -> Verdict[FunctionCall]:
    return await check(await shown(call))


Decide: TypeAlias = Callable[[Asks], Awaitable[Decision]]
"""Asks a person."""


class GuardrailChain:
    """Asks guardrails in their order; each sees what the one before it has made of the thing.

    Args:
        guardrails: The guardrails.
        decide: Asked where one of them asks.
    """

    def __init__(self, guardrails: Sequence[Guardrail], decide: Decide) -> None:
        self._guardrails = guardrails
        self._decide = decide

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._guardrails)

    @property
    def checks_answers(self) -> bool:
        """Whether one of them looks at answers."""
        return any(one.checks_answers for one in self._guardrails)

    async def task(self, task: Sequence[BaseChatMessage]) -> Sequence[BaseChatMessage] | Refused:
        """The task that goes on, or why none does."""
        return await self._passed(task, TASK, [one.check_task for one in self._guardrails])

    async def call(self, call: FunctionCall, shown: ShownCall) -> FunctionCall | Refused:
        """The call that goes on, or why none does.

        Args:
            call: As the model wrote it.
            shown: Makes of a call what the guardrails see of it.
        """
        # guard: guardrails judge what runs, and not a text that the tool reads in another way
        checks = [partial(_seen, one.check_call, shown) for one in self._guardrails]
        passed = await self._passed(call, CALL, checks)
        # The model knows its call by the id alone.
        return passed if isinstance(passed, Refused) else FunctionCall(call.id, passed.arguments, passed.name)

    async def answer(self, answer: BaseChatMessage) -> BaseChatMessage | Refused:
        """The answer that goes on, or why none does."""
        return await self._passed(answer, ANSWER, [one.check_answer for one in self._guardrails])

    async def _passed(
        self, thing: T, form: Form[T], checks: Sequence[Callable[[T], Awaitable[Verdict[T]]]]
    ) -> T | Refused:
        for number, check in enumerate(checks):
            verdict = await recorded(number, thing, form, check)
            decision = await self._decide(verdict) if isinstance(verdict, Asks) else verdict
            if isinstance(decision, Refused):
                return decision
            if isinstance(decision, Changed):
                thing = decision.value
        return thing


DIGITS: Final = 32  # of the hash of what is checked


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """A kind of thing that is checked, as it is recorded.

    Attributes:
        name: Of the kind.
        write: Makes plain data of it.
        read: Makes it of that.
        shown: The part of it that is the same in every attempt, as plain data.
    """

    name: str
    write: Callable[[T], Any]
    read: Callable[[Any], T]
    shown: Callable[[T], Any]


async def recorded(
    number: int, thing: T, form: Form[T], ask: Callable[[T], Awaitable[Verdict[T]]]
) -> Verdict[T]:
    """The verdict of a guardrail, in a handler from the record if it is there.

    Args:
        number: Of the guardrail among those of its assistant.
        thing: What it checks.
        form: How that is written.
        ask: Asks the guardrail.
    """
    what = json.dumps(form.shown(thing), sort_keys=True, default=str).encode()
    step = NumberedStep.begin(f"guardrail:{number}:{form.name}:{hashlib.sha256(what).hexdigest()[:DIGITS]}")
    if step is None:
        return await ask(thing)

    async def judge() -> dict[str, Any]:
        return _write(await ask(thing), form)

    # A guardrail that asks a model may judge otherwise in the next attempt: a call that was let through and has run would
    # be refused then, or the other way round.
    # guard: what a guardrail said is recorded before anybody goes by it
    return _read(await step.run(judge), form)


def _content(message: BaseChatMessage) -> Any:
    """A message without what is new in every attempt: its id, and when it was made."""
    data = message.dump()
    return {key: value for key, value in data.items() if key not in ("id", "created_at")}


TASK: Final[Form[Sequence[BaseChatMessage]]] = Form(
    "task",
    lambda task: [message.dump() for message in task],
    lambda data: [read_message(one) for one in data],
    lambda task: [_content(message) for message in task],
)
CALL: Final[Form[FunctionCall]] = Form("call", asdict, lambda data: FunctionCall(**data), asdict)
ANSWER: Final[Form[BaseChatMessage]] = Form("answer", lambda answer: answer.dump(), read_message, _content)


def _write(verdict: Verdict[T], form: Form[T]) -> dict[str, Any]:
    if isinstance(verdict, Changed):
        return {"verdict": "changed", "value": form.write(verdict.value)}
    if isinstance(verdict, Refused):
        return {"verdict": "refused", **asdict(verdict)}
    if isinstance(verdict, Asks):
        return {"verdict": "asks", **asdict(verdict)}
    return {"verdict": "passed"}


def _read(data: dict[str, Any], form: Form[T]) -> Verdict[T]:
    fields = {key: value for key, value in data.items() if key != "verdict"}
    match data["verdict"]:
        case "changed":
            return Changed(form.read(fields["value"]))
        case "refused":
            return Refused(**fields)
        case "asks":
            return Asks(**fields)
        case _:
            return Passed()


async def decided_by_person(agent: str, asks: Asks) -> Decision:
    """The decision of a person: yes, or no and why.

    Args:
        agent: Whose guardrail asks.
        asks: The question.

    Raises:
        UserInputError: No person can be asked here (a RuntimeError).
    """
    digest = hashlib.sha256(asks.question.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
    step = NumberedStep.begin(f"guardrail-asks:{digest}")
    context = running_context()
    if not can_ask(context):
        raise UserInputError(
            agent,
            f"a guardrail asks: {asks.question} Nobody can be asked: give the assistant a function that asks, `on_input=`, "
            f"write `on_guardrail_asks` in a class of your own, or run it on the bus.",
        )
    question = Question(
        text=asks.question,
        name="guardrail" if step is None else step.full_name,
        answer_type=Consent,
        details={"kind": CONSENT, "agent": agent},
    )
    answer = await ask_person(question, context)
    return Passed() if answer.approved else Refused(answer.reason or "A person has refused it.")
