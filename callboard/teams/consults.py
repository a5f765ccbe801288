"""What a manager and the agent that asks people for it tell each other."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from callboard.broker.encoding.registry import message
from callboard.broker.inquiry import InputStatus


@message(name="callboard.team.Consult")
class Consult(BaseModel):
    """A manager's strategy asks a person: to the agent of its type that asks for it.

    Attributes:
        id: Tells it from others; what came of it names it.
        run: The run's stream, where the question is shown.
        inside: Turns of larger teams that the run is a part of, the outermost first.
        source: Who asks, for readers.
        name: Name of the question, by which the strategy finds the answer.
        text, answer_schema, choices, to, timeout, details: What is asked, see `callboard.Question`.
        default: JSON of what is taken when it expires; None: nothing is.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    run: str
    inside: tuple[int, ...]
    source: str
    name: str
    text: str
    answer_schema: dict[str, Any] = Field(default_factory=dict)
    choices: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    timeout: float | None = None
    default: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


@message(name="callboard.team.Consulted")
class Consulted(BaseModel):
    """What came of it.

    Attributes:
        id: Of the Consult.
        name: Name of the question.
        status: "answered", "expired" or "withdrawn".
        answer: JSON of the answer, or of the default; "" without one.
        input_id: Id of the question, where it has no answer.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    status: InputStatus
    answer: str = ""
    input_id: str = ""
