"""What type checkers know of an agent's state. Every ignored line is an error that mypy and pyright have to find.

Both check the tests too, and complain of a comment that ignores nothing.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, assert_type

import pytest
from pydantic import BaseModel

from callboard import BaseAgent, MessageContext, RoutedAgent, event
from callboard.core.state import state_model
from callboard.errors import MisuseError, StateError
from tests.helpers.runtimes import Note


class Counts(BaseModel):
    """A state."""

    total: int = 0


class ByArgument(RoutedAgent[Counts]):
    """Names its state as the argument of its base."""

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        assert_type(self.state, Counts)
        self.state.total += 1
        self.state.typo = 3  # type: ignore[attr-defined]
        self.state = Note()  # type: ignore[assignment]


class ByAnnotation(RoutedAgent):
    """Has a nested state, and says so."""

    class State(BaseModel):
        """A state."""

        total: int = 0

    state: State

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        assert_type(self.state, ByAnnotation.State)
        self.state.typo = 3  # type: ignore[attr-defined]


class Unsaid(RoutedAgent):
    """Has a nested state, and says nothing of it: anything goes."""

    class State(BaseModel):
        """A state."""

        total: int = 0

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        self.state.typo = 3
        self.state.total += "a"


class Plain(BaseAgent[Counts]):
    """Without handlers by type."""

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> None:
        assert_type(self.state.total, int)


AnyState = TypeVar("AnyState", bound=BaseModel)
Unit = TypeVar("Unit")


class Measuring(RoutedAgent[AnyState], Generic[Unit, AnyState]):
    """Generic in its state, and in something else."""

    def current(self) -> AnyState:
        return self.state


class Meters(Measuring[str, Counts]):
    """The state of a generic base."""


class More(Counts):
    """A larger state."""

    last: str = ""


class Overriding(ByArgument):
    """A nested state instead of the argument of its base class."""

    class State(More):
        """A state."""


if TYPE_CHECKING:

    class NoModel(RoutedAgent[int]):  # type: ignore[type-var]
        """A state has to be a model."""


@pytest.mark.parametrize(
    ("agent_class", "model"),
    [
        (ByArgument, Counts),
        (ByAnnotation, ByAnnotation.State),
        (Unsaid, Unsaid.State),
        (Plain, Counts),
        (Meters, Counts),
        (Measuring, None),
        (RoutedAgent, None),
        (Overriding, Overriding.State),
    ],
)
def test_the_state_of_a_class(agent_class: type[Any], model: type[BaseModel] | None) -> None:
    assert state_model(agent_class) is model


def test_the_state_is_that_of_its_class() -> None:
    agent = ByArgument()
    agent.state.total += 1
    assert agent.state == Counts(total=1)
    assert_type(Meters().current(), Counts)
    assert Meters().current() == Counts()
    with pytest.raises(MisuseError, match=r"RoutedAgent\[YourState\]"):
        _ = RoutedAgent().state


@pytest.mark.parametrize("argument", [int, None, "Counts"])
def test_what_is_no_model_is_refused_where_the_class_is_defined(argument: Any) -> None:
    with pytest.raises(StateError, match=r"State of Wrong: .* has to be a pydantic model"):
        type("Wrong", (RoutedAgent,), {"__orig_bases__": (RoutedAgent[argument],)})


def test_two_states_are_refused() -> None:
    with pytest.raises(StateError, match="not both"):

        class Both(RoutedAgent[Counts]):
            """Can't decide."""

            class State(BaseModel):
                """Another one."""
