import dataclasses
from typing import Any, NamedTuple

import msgpack
import pytest
from pydantic import BaseModel

from callboard.broker import MessageRegistry, message
from callboard.broker.errors import DecodeError, EncodeError, SettingsError
from tests.unit.broker import shapes


class Task(BaseModel):
    title: str


@dataclasses.dataclass
class Done:
    count: int


class Pair(NamedTuple):
    a: int
    b: int


@message(name="order.placed", version=2, upgrade_from={1: lambda data: {"number": data["nr"]}})
class Order(BaseModel):
    number: int


class BigOrder(Order):
    size: int = 0


def make_task(qualname: str = "other.<locals>.Task") -> type[BaseModel]:
    return type("Task", (BaseModel,), {"__module__": __name__, "__qualname__": qualname})


@pytest.fixture
def registry() -> MessageRegistry:
    return MessageRegistry()


def test_the_wire_name_is_the_name_of_the_class(registry: MessageRegistry) -> None:
    registry.register(Task, Done, Pair)
    assert [registry.name_of(cls) for cls in (Task, Done, Pair)] == ["Task", "Done", "Pair"]
    assert registry.entry("Task").cls is Task
    assert registry.entry("Task").version == 1


def test_generic_models_have_their_parameters_in_the_name(registry: MessageRegistry) -> None:
    registry.register(shapes.Box[int], shapes.Box[str])
    assert registry.entry("Box[int]").cls is shapes.Box[int]
    assert registry.decode("Box[str]", 1, b'{"item":"x"}') == shapes.Box[str](item="x")


def test_a_class_is_registered_when_one_of_its_values_is_sent(registry: MessageRegistry) -> None:
    assert not registry.is_known("Task")
    entry = registry.entry_for(Task(title="x"))
    assert registry.is_known("Task")
    assert registry.entry_for(Task(title="y")) is entry


def test_simple_values_are_always_known(registry: MessageRegistry) -> None:
    names = {"str", "int", "float", "bool", "bytes", "list", "dict", "none"}
    assert {entry.name for entry in registry} == names
    assert registry.name_of(type(None)) == "none"


def test_an_unknown_name_is_an_error_and_nothing_is_imported(registry: MessageRegistry) -> None:
    with pytest.raises(DecodeError, match=r"unknown message type 'colorsys\.Task'") as caught:
        registry.decode("colorsys.Task", 1, b"{}")
    assert caught.value.name == "colorsys.Task"
    assert isinstance(caught.value, DecodeError)


def test_another_class_of_the_same_name_is_refused(registry: MessageRegistry) -> None:
    registry.register(Task)
    with pytest.raises(SettingsError, match="give one of them another") as caught:
        registry.register(make_task())
    assert ".Task has that name" in str(caught.value)
    assert registry.entry("Task").cls is Task


def test_a_name_for_one_of_them_helps(registry: MessageRegistry) -> None:
    other = make_task()
    registry.register(Task)
    registry.register(other, name="other.Task")
    assert registry.entry_for(other()).name == "other.Task"


def test_a_class_that_was_made_again_takes_the_place_of_the_old_one(registry: MessageRegistry) -> None:
    first, second = make_task(), make_task()
    registry.register(first)
    registry.register(second)
    assert registry.entry("Task").cls is second
    registry.register(first)
    assert registry.entry("Task").cls is first


def test_registering_twice_is_harmless_unless_it_says_something_else(registry: MessageRegistry) -> None:
    registry.register(Task, name="task")
    registry.register(Task)
    registry.register(Task, name="task")
    with pytest.raises(SettingsError, match="again, as 'job'"):
        registry.register(Task, name="job")


@pytest.mark.parametrize("name", ["a b", "a\n", "\t", "a\x00", "x" * 129, "\ud800", "a\u2003b"])
def test_wrong_wire_names(registry: MessageRegistry, name: str) -> None:
    with pytest.raises(SettingsError, match="1 to 128 characters without spaces"):
        registry.register(Task, name=name)


def test_a_name_is_for_one_class(registry: MessageRegistry) -> None:
    with pytest.raises(SettingsError, match="for one class"):
        registry.register(Task, Done, name="x")


@pytest.mark.parametrize("value", [object(), 1j, Task, {1, 2}, (1, 2), make_task])
def test_other_values_can_not_be_sent(registry: MessageRegistry, value: Any) -> None:
    with pytest.raises(EncodeError, match="make it a pydantic model or a dataclass"):
        registry.entry_for(value)


def test_the_decorator_gives_name_version_and_upgrades(registry: MessageRegistry) -> None:
    registry.register(Order)
    assert registry.decode("order.placed", 2, b'{"number":1}') == Order(number=1)
    assert registry.decode("order.placed", 1, b'{"nr":1}') == Order(number=1)
    assert registry.decode("order.placed", None, msgpack.packb({"number": 1})) == Order(number=1)
    with pytest.raises(DecodeError, match=r"order\.placed version 3 is not accepted here, only 1, 2"):
        registry.decode("order.placed", 3, b'{"number":1}')


def test_a_subclass_does_not_inherit_the_name(registry: MessageRegistry) -> None:
    registry.register(Order, BigOrder)
    assert registry.name_of(BigOrder) == "BigOrder"
    assert registry.entry("BigOrder").version == 1


def test_versions_without_the_decorator(registry: MessageRegistry) -> None:
    registry.register(Task, version=2, upgrade_from={1: lambda data: {"title": data["name"]}})
    assert registry.decode("Task", 1, b'{"name":"x"}') == Task(title="x")


@pytest.mark.parametrize(
    ("version", "older", "why"),
    [
        (0, [], "versions begin with 1"),
        (2, [2], "an upgrade from version 2 leads nowhere"),
        (2, [0], "an upgrade from version 0 leads nowhere"),
        (3, [1], "the one from version 2 is missing"),
    ],
)
def test_versions_that_do_not_fit_together(
    registry: MessageRegistry, version: int, older: list[int], why: str
) -> None:
    marked = message(version=version, upgrade_from=dict.fromkeys(older, dict))(make_task())
    with pytest.raises(SettingsError, match=why):
        registry.register(marked)
