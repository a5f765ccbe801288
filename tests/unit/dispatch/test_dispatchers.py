"""Dispatchers: the table of the proposal's code and of what is right in its place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from callboard.agents import Handoff
from callboard.dispatch import (
    AbstractDispatcher,
    AbstractDynamicDispatcher,
    Dispatcher,
    DispatchError,
    DynamicDispatcher,
    HandoffChange,
    HandoffDeclarationError,
    TargetRefusedError,
    TypedHandoff,
    UnknownHandoffError,
)
from callboard.foundation import ActorError

BOB = Handoff(target="bob")
EVE = Handoff(target="eve")


def dynamic(*handoffs: Handoff, authorized: Any = ("bob", "eve"), **options: Any) -> DynamicDispatcher:
    return DynamicDispatcher(authorized, handoffs, **options)


def names(handoffs: list[Handoff]) -> list[str]:
    return [handoff.name for handoff in handoffs]


def create(dispatcher: DynamicDispatcher, name: str = "ask", target: str = "bob", **given: Any) -> Handoff:
    text = {"description": "When needed.", "message": "Please.", **given}
    return dispatcher.create_handoff(name, target, **text)


Way = Callable[[str, str, str], object]
WAYS: dict[str, Callable[[str, str, str], object]] = {
    "created": lambda name, target, text: dynamic().create_handoff(name, target, text, ""),
    "added": lambda name, target, text: dynamic().add_handoff(named(name, target, text)),
    "given": lambda name, target, text: dynamic(named(name, target, text)),
}
STATIC: dict[str, Way] = {"static": lambda name, target, text: Dispatcher([named(name, target, text)])}


def named(name: str, target: str, description: str) -> Handoff:
    return Handoff(name=name, target=target, description=description)


def test_there_is_one_tree_of_dispatchers_and_handoffs_is_a_property() -> None:
    assert issubclass(AbstractDynamicDispatcher, AbstractDispatcher)
    assert isinstance(dynamic(), AbstractDynamicDispatcher)
    assert Dispatcher([BOB, EVE]).handoffs == dynamic(BOB, EVE).handoffs == [BOB, EVE]


@pytest.mark.parametrize("way", [*WAYS, *STATIC])
@pytest.mark.parametrize("name", ["class", "été", "a" * 65])
def test_names_are_those_of_tools_on_every_way(way: str, name: str) -> None:
    with pytest.raises(HandoffDeclarationError, match="its name may have"):
        (WAYS | STATIC)[way](name, "bob", "")


@pytest.mark.parametrize("way", [*WAYS, *STATIC])
def test_descriptions_are_limited_on_every_way(way: str) -> None:
    (WAYS | STATIC)[way]("ask", "bob", "d" * 1024)
    with pytest.raises(HandoffDeclarationError, match=r"1,025 characters"):
        (WAYS | STATIC)[way]("ask", "bob", "d" * 1025)


@pytest.mark.parametrize("way", WAYS)
def test_targets_are_authorized_on_every_way(way: str) -> None:
    with pytest.raises(TargetRefusedError, match="it is not authorized; there are: bob, eve"):
        WAYS[way]("ask", "mallory", "")


@pytest.mark.parametrize(
    "add",
    [
        lambda: Dispatcher([BOB, Handoff(target="eve", name=BOB.name)]),
        lambda: dynamic(BOB, BOB),
        lambda: dynamic(BOB).add_handoff(BOB),
        lambda: create(dynamic(BOB), BOB.name),
    ],
)
def test_a_name_is_there_once(add: Callable[[], object]) -> None:
    with pytest.raises(HandoffDeclarationError, match="there is a handoff 'transfer_to_bob' already"):
        add()


@pytest.mark.parametrize("add", [lambda given: Dispatcher([given]), dynamic, dynamic().add_handoff])
def test_what_is_no_handoff_is_a_type_error_first_of_all(add: Callable[[Any], object]) -> None:
    with pytest.raises(HandoffDeclarationError, match="a str is no handoff") as caught:
        add("bob")
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("method", ["delete_handoff", "enable_handoff", "disable_handoff"])
def test_an_unknown_name_is_one_error_that_is_both_of_the_proposals(method: str) -> None:
    with pytest.raises(UnknownHandoffError, match="Did you mean 'transfer_to_bob'") as caught:
        getattr(dynamic(BOB), method)("transfer_to_bop")
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DispatchError)
    assert isinstance(caught.value, ActorError)


def test_an_identifier_that_is_none_is_an_error_of_ours_and_not_pydantics() -> None:
    with pytest.raises(HandoffDeclarationError, match="'ask for it' can't be a handoff"):
        create(dynamic(), "ask for it")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("My Agent", "transfer_to_my_agent"),
        ("Éva", "transfer_to_eva"),
        ("a" * 100, "transfer_to_" + "a" * 52),
        ("writer", "transfer_to_writer"),
    ],
)
def test_the_usual_name_is_one_that_servers_take(target: str, name: str) -> None:
    made = create(dynamic(authorized="*"), "", target, description="", message="")
    assert made.name == name
    assert made.description == f"Handoff to {target}."
    assert made.message == f"Transferred to {target}, adopting the role of {target} immediately."
    assert Dispatcher([Handoff(target=target)]).handoffs[0].name == name


def test_enabling_and_deleting() -> None:
    dispatcher = dynamic(BOB)
    dispatcher.add_handoff(EVE, enabled=False)
    assert names(dispatcher.enabled_handoffs) == ["transfer_to_bob"]
    dispatcher.enable_handoff(EVE.name)
    dispatcher.disable_handoff(BOB.name)
    assert dispatcher.enabled_handoffs == [EVE]
    assert dispatcher.handoffs == [BOB, EVE]
    dispatcher.delete_handoff(EVE.name)
    assert dispatcher.handoffs == [BOB]


def test_delete_all_forgets_the_flags_too() -> None:
    dispatcher = dynamic(BOB)
    dispatcher.disable_handoff(BOB.name)
    dispatcher.delete_all_handoffs()
    assert dispatcher.handoffs == dispatcher.enabled_handoffs == []
    with pytest.raises(UnknownHandoffError):
        dispatcher.enable_handoff(BOB.name)
    dispatcher.add_handoff(BOB)
    assert dispatcher.enabled_handoffs == [BOB]


# Authorization


@pytest.mark.parametrize("authorized", [None, (), {}, {"ada": []}])
def test_nobody_is_authorized_unless_somebody_says_so(authorized: Any) -> None:
    with pytest.raises(TargetRefusedError):
        DynamicDispatcher(authorized, [BOB])
    with pytest.raises(TargetRefusedError, match="it is not authorized for 'ada'; nobody is"):
        create(DynamicDispatcher(authorized), caller="ada")


def test_anybody_is_authorized_by_a_star() -> None:
    assert dynamic(BOB, EVE, authorized="*").handoffs == [BOB, EVE]


@pytest.mark.parametrize("authorized", ["bob", [1], {"ada": "bob"}])
def test_authorized_agents_are_lists_of_names(authorized: Any) -> None:
    with pytest.raises(HandoffDeclarationError, match="list of names"):
        DynamicDispatcher(authorized)


def test_each_agent_has_targets_of_its_own() -> None:
    dispatcher = dynamic(authorized={"ada": ["bob"], "cleo": "*"})
    create(dispatcher, "to_bob", "bob", caller="ada")
    with pytest.raises(TargetRefusedError, match="it is not authorized for 'ada'; there are: bob"):
        create(dispatcher, "to_eve", "eve", caller="ada")
    with pytest.raises(TargetRefusedError, match="it is not authorized for 'mallory'"):
        create(dispatcher, "to_bob_2", "bob", caller="mallory")
    create(dispatcher, "to_eve", "eve", caller="cleo")
    assert names(dispatcher.offered("ada")) == ["to_bob"]
    assert names(dispatcher.offered("cleo")) == ["to_bob", "to_eve"]
    assert dispatcher.offered("mallory") == []


def test_nobody_hands_over_to_itself() -> None:
    with pytest.raises(TargetRefusedError, match="that is who hands over"):
        create(dynamic(), target="bob", caller="bob")
    assert dynamic(BOB, EVE).offered("bob") == Dispatcher([BOB, EVE]).offered("bob") == [EVE]


def test_targets_are_in_the_team_or_known_to_be_outside() -> None:
    dispatcher = dynamic(authorized="*", outside=["user"])
    dispatcher.join(["ada", "bob"])
    create(dispatcher, "to_bob", "bob")
    create(dispatcher, "to_user", "user")
    with pytest.raises(TargetRefusedError, match="nobody in the team has this name; there are: ada, bob"):
        create(dispatcher, "to_eve", "eve")
    assert names(dispatcher.handoffs) == ["to_bob", "to_user"]
    with pytest.raises(TargetRefusedError, match="'eve'"):
        dynamic(EVE).join(["ada", "bob"])


def test_a_function_says_when_a_handoff_is_offered() -> None:
    dispatcher = dynamic()
    dispatcher.add_handoff(BOB, enabled=lambda agent, messages: agent == "ada" and not messages)
    assert dispatcher.offered("ada") == [BOB]
    assert dispatcher.offered("cleo") == []
    dispatcher.disable_handoff(BOB.name)
    assert dispatcher.offered("ada") == []


# Limits


def test_there_are_only_so_many() -> None:
    dispatcher = dynamic(BOB, max_handoffs=2)
    create(dispatcher, "one")
    with pytest.raises(HandoffDeclarationError, match="at most 2 handoffs"):
        create(dispatcher, "two")
    dispatcher.delete_handoff("one")
    create(dispatcher, "two")
    assert names(dispatcher.handoffs) == [BOB.name, "two"]


@pytest.mark.parametrize("limit", ["max_handoffs", "lifetime", "max_uses"])
def test_limits_are_positive(limit: str) -> None:
    with pytest.raises(HandoffDeclarationError, match=f"{limit} must be greater than 0"):
        dynamic(**{limit: 0})


@pytest.mark.parametrize(("lifetime", "left"), [(1, []), (2, ["ask"]), (None, ["ask"])])
def test_a_created_handoff_lives_for_some_turns(lifetime: int | None, left: list[str]) -> None:
    dispatcher = dynamic(BOB, lifetime=lifetime)
    dispatcher.begin_turn()
    create(dispatcher)
    assert dispatcher.begin_turn() == []
    gone = dispatcher.begin_turn()
    assert names(dispatcher.handoffs) == ["transfer_to_bob", *left]
    assert names(gone) == ([] if left else ["ask"])


@pytest.mark.parametrize(("max_uses", "left"), [(1, 0), (2, 1), (None, 2)])
def test_a_created_handoff_is_used_so_often(max_uses: int | None, left: int) -> None:
    dispatcher = dynamic(BOB, max_uses=max_uses)
    create(dispatcher)
    uses = [dispatcher.handed_over("ask"), dispatcher.handed_over("ask")]
    assert uses.count(False) - (left == 0) == left
    assert ("ask" in names(dispatcher.handoffs)) is (max_uses is None)
    assert not dispatcher.handed_over(BOB.name)
    assert BOB in dispatcher.handoffs


def test_a_reset_forgets_what_was_created_only() -> None:
    dispatcher = dynamic(BOB)
    dispatcher.add_handoff(EVE)
    create(dispatcher)
    dispatcher.reset()
    assert dispatcher.handoffs == [BOB, EVE]


def test_every_change_is_told() -> None:
    told: list[HandoffChange] = []
    dispatcher = dynamic(BOB, on_change=told.append)
    create(dispatcher, target="eve", caller="ada")
    dispatcher.disable_handoff("ask")
    dispatcher.disable_handoff("ask")
    dispatcher.enable_handoff("ask")
    dispatcher.handed_over("ask")
    dispatcher.delete_all_handoffs()
    assert told == [
        HandoffChange("added", "transfer_to_bob", "bob"),
        HandoffChange("created", "ask", "eve", "ada"),
        HandoffChange("disabled", "ask", "eve"),
        HandoffChange("enabled", "ask", "eve"),
        HandoffChange("used", "ask", "eve"),
        HandoffChange("deleted", "transfer_to_bob", "bob"),
    ]


# State


async def test_a_new_process_goes_on_with_what_there_was() -> None:
    first = dynamic(BOB, EVE, max_uses=2, lifetime=2)
    first.begin_turn()
    create(first, "ask")
    first.handed_over("ask")
    first.add_handoff(Handoff(target="eve", name="added"), enabled=False)
    first.delete_handoff(EVE.name)
    first.disable_handoff(BOB.name)

    second = dynamic(BOB, EVE, max_uses=2, lifetime=2)
    await second.load_state(await first.save_state())

    assert await second.save_state() == await first.save_state()
    assert set(names(second.handoffs)) == set(names(first.handoffs)) == {BOB.name, "ask", "added"}
    assert names(second.enabled_handoffs) == ["ask"]
    assert second.handed_over("ask")


async def test_a_target_that_is_not_authorized_any_more_is_not_offered() -> None:
    first, second = dynamic(), dynamic(authorized=["eve"])
    create(first)
    await second.load_state(await first.save_state())
    assert second.offered("ada") == []


async def test_what_is_code_is_not_saved_and_keeps_its_flag() -> None:
    first, second = dynamic(), dynamic()
    for dispatcher in (first, second):
        dispatcher.add_handoff(BOB, enabled=lambda agent, messages: True)
        dispatcher.add_handoff(TypedHandoff(target="eve", input_type=HandoffStateLike))
        dispatcher.add_handoff(Handoff(target="eve", name="filtered", input_filter=lambda given: given.along))
    first.disable_handoff("filtered")
    await second.load_state(await first.save_state())
    assert names(second.enabled_handoffs) == [BOB.name, EVE.name]
    assert len(second.handoffs) == 3


class HandoffStateLike(Handoff):
    """Some model of arguments."""


SAVED = {"name": "ask", "target": "bob", "description": "", "message": "", "origin": "created"}


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"type": "Other"}, "type: Input should be"),
        ({"handoffs": [{"name": "a"}]}, r"handoffs\.0\.target"),
        ({"handoffs": [{**SAVED, "name": "class"}]}, "its name may have"),
        ({"handoffs": [SAVED, SAVED]}, "two handoffs have one name"),
        ({"handoffs": [{**SAVED, "name": f"a{n}"} for n in range(3)]}, "it has 3 handoffs"),
    ],
)
async def test_a_state_of_something_else_changes_nothing(state: dict[str, Any], why: str) -> None:
    dispatcher = dynamic(BOB, max_handoffs=2)
    with pytest.raises(HandoffDeclarationError, match=why):
        await dispatcher.load_state(state)
    assert dispatcher.handoffs == [BOB]


def test_a_copy_goes_its_own_way() -> None:
    told: list[HandoffChange] = []
    first = dynamic(BOB, on_change=told.append)
    second = copy.deepcopy(first)
    create(second)
    second.delete_handoff(BOB.name)
    second.join(["ada"])
    assert second.offered("ada") == []
    assert first.handoffs == [BOB]
    first.join(["ada", "bob"])
    assert names(second.handoffs) == ["ask"]
    assert [change.kind for change in told] == ["added", "created", "deleted"]
