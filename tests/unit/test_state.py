from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator

from callboard import BaseAgent, MessageContext
from callboard.core.state import dump_state, restore_state, state_model
from callboard.errors import MisuseError, StateError


class Silent(BaseAgent):
    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        return None


class Tally(BaseModel):
    total: int = 0
    names: list[str] = []
    ratio: float = 0.0
    seen: datetime | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.total


class Counter(Silent):
    class State(Tally):
        model_config = ConfigDict(extra="forbid")


class Inheriting(Counter):
    pass


class Extending(Counter):
    class State(Counter.State):
        more: str = "more"


def test_a_nested_state_makes_a_class_persistent() -> None:
    assert state_model(Counter) is Counter.State
    assert state_model(Inheriting) is Counter.State
    assert state_model(Extending) is Extending.State
    assert state_model(Silent) is None
    assert state_model(object) is None


def test_the_default_is_made_at_the_first_use() -> None:
    agent = Counter()
    assert "_persistent_state" not in vars(agent)
    agent.state.total += 1
    agent.state.names.append("Ada")
    assert agent.state == Counter.State(total=1, names=["Ada"])
    assert Counter().state.names == []


def test_a_state_can_be_replaced_by_another_of_its_class() -> None:
    agent = Counter()
    agent.state = Counter.State(total=5)
    assert agent.state.total == 5
    with pytest.raises(TypeError, match=r"State of Counter: it must be a Counter\.State, not dict"):
        agent.state = {"total": 6}


def test_without_a_state_there_is_none() -> None:
    with pytest.raises(AttributeError, match="Silent declares no state: give it a"):
        Silent().state  # noqa: B018
    assert not hasattr(Silent(), "state")
    assert issubclass(MisuseError, AttributeError)
    assert dump_state(Silent()) is None


def test_an_agent_without_a_model_may_call_anything_its_state() -> None:
    agent = Silent()
    agent.state = {"anything": 1}
    assert agent.state == {"anything": 1}
    assert dump_state(agent) is None


def test_something_else_called_state_is_left_alone() -> None:
    class Machine(Silent):
        class State(Enum):
            ON = 1

    assert state_model(Machine) is None
    assert Machine.State.ON.value == 1


def test_every_field_needs_a_default() -> None:
    class Demanding(Silent):
        class State(BaseModel):
            needed: int

    with pytest.raises(StateError, match="State of Demanding: every field needs a default; needed has none"):
        Demanding().state  # noqa: B018


def test_dump_and_restore_are_each_others_inverse() -> None:
    agent, other = Counter(), Counter()
    agent.state.total = 3
    agent.state.seen = datetime(2026, 11, 21, tzinfo=UTC)
    data = dump_state(agent)
    assert data is not None
    assert data.startswith(b'{"total":3')
    restore_state(other, data)
    assert other.state == agent.state
    assert dump_state(other) == data


def test_an_untouched_agent_dumps_the_default() -> None:
    assert dump_state(Counter()) == b'{"total":0,"names":[],"ratio":0.0,"seen":null}'


def test_restoring_nothing_goes_back_to_the_default() -> None:
    agent = Counter()
    agent.state.total = 3
    restore_state(agent, None)
    assert agent.state.total == 0


def test_a_state_with_aliases_comes_back() -> None:
    class Aliased(Silent):
        class State(BaseModel):
            total: int = Field(default=0, alias="Total")

    agent, other = Aliased(), Aliased()
    agent.state.total = 3
    restore_state(other, dump_state(agent))
    assert other.state.total == 3


def test_a_stored_state_that_fits_no_more_is_an_error_without_its_values() -> None:
    with pytest.raises(StateError, match="look at total, gone") as raised:
        restore_state(Counter(), b'{"total":"secret","gone":1}')
    assert "secret" not in str(raised.value)
    assert raised.value.permanent


def test_a_stored_state_of_a_class_without_one_is_an_error() -> None:
    with pytest.raises(StateError, match="the class declares none any more"):
        restore_state(Silent(), b"{}")


@pytest.mark.parametrize("field", ["total", "ratio"])
def test_a_value_that_could_not_be_read_back_is_not_stored(field: str) -> None:
    agent = Counter()
    setattr(agent.state, field, {"total": "secret", "ratio": float("nan")}[field])
    with pytest.raises(StateError, match=f"State of Counter: {field} can't be stored") as raised:
        dump_state(agent)
    assert "secret" not in str(raised.value)


def test_not_a_number_is_stored_where_the_model_says_how() -> None:
    class Measuring(Silent):
        class State(BaseModel):
            model_config = ConfigDict(ser_json_inf_nan="constants")
            value: float = 0.0

    agent, other = Measuring(), Measuring()
    agent.state.value = float("nan")
    restore_state(other, dump_state(agent))
    assert other.state.value != other.state.value


async def test_save_and_load_pass_plain_data() -> None:
    agent, other = Counter(), Counter()
    agent.state.total = 3
    agent.state.seen = datetime(2026, 11, 21, tzinfo=UTC)
    saved = await agent.save_state()
    assert saved == {"total": 3, "names": [], "ratio": 0.0, "seen": "2026-11-21T00:00:00Z"}
    await other.load_state(saved)
    assert other.state == agent.state


async def test_a_strict_model_takes_its_own_saved_state() -> None:
    class Strict(Silent):
        class State(BaseModel):
            model_config = ConfigDict(strict=True)
            seen: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    agent = Strict()
    agent.state.seen = datetime(2026, 11, 21, tzinfo=UTC)
    other = Strict()
    await other.load_state(await agent.save_state())
    assert other.state == agent.state


class Telling(BaseModel):
    """Counts how often it is read."""

    reads: ClassVar[int] = 0
    maybe: str | None = None

    @model_validator(mode="after")
    def _count(self) -> Self:
        type(self).reads += 1
        return self


def test_what_is_known_to_be_readable_is_not_tried_again() -> None:
    class Teller(Silent):
        class State(BaseModel):
            inner: Telling = Telling()
            number: int = 0

    agent = Teller()
    data = dump_state(agent)
    before = Telling.reads
    assert dump_state(agent, data) == data
    assert Telling.reads == before
    agent.state.number = None
    with pytest.raises(StateError, match="number"):
        dump_state(agent, data)
