"""What a guardrail may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

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
"""What a guardrail says about a T."""

Decision: TypeAlias = Passed | Refused
"""What a person may say."""
