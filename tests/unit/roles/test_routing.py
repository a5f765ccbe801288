from __future__ import annotations

from typing import Any

import pytest

from callboard.roles import Message, Part, Role, UnknownRoleError
from callboard.roles.actor import Acting
from callboard.roles.errors import HopLimitError, RoleDeclarationError
from callboard.roles.message import bus_name, topic_of
from callboard.roles.routing import Post, PostDestination, Routing, check_hops, merged, rounds_of


def post(name: str, *watch: str, joined: tuple[str, ...] = ()) -> Post:
    return Post(name, frozenset({name, f"m.{name}"}), frozenset((*watch, *joined)), frozenset(joined))


ROUTING = Routing([post("a", "start"), post("b", "x", "y"), post("c", "x", joined=("y",))])
SPLIT = (Part("s", 3, 10), Part("t", 1, 2))


def where(message: Message, sender: str = "") -> list[tuple[str, str, str]]:
    return [(one.topic, one.agent_type, one.part) for one in ROUTING.destinations(message, sender)]


def test_a_message_goes_to_the_topic_of_its_action_once() -> None:
    assert where(Message(cause_by="x", subtask=SPLIT)) == [("x", "", "3.1")]
    assert where(Message(cause_by="nothing")) == []


def test_those_who_hear_subtasks_together_have_a_topic_of_their_own() -> None:
    assert where(Message(cause_by="y", subtask=SPLIT)) == [("y", "", "3.1"), ("y:join", "", "3")]


def test_who_is_named_gets_it_whatever_it_watches() -> None:
    assert where(Message(cause_by="x", send_to="m.a")) == [("", "a", "")]
    assert where(Message(cause_by="x", send_to={"a", "<all>"})) == [("", "a", ""), ("x", "", "")]
    assert where(Message(cause_by="x", send_to="<self>"), "c") == [("", "c", "")]
    assert where(Message(cause_by="x", send_to={"<none>", "a"})) == []


def test_whose_rounds_are_over_gets_nothing() -> None:
    message = Message(cause_by="x", acts={"b": 3, "c": 2}, max_rounds=3)
    assert where(message) == [("x", "", "")]
    assert not ROUTING["b"].may_act(message)
    assert where(message.model_copy(update={"acts": {"b": 3, "c": 3}})) == []
    assert not ROUTING.is_heard(message.model_copy(update={"acts": {"b": 3, "c": 3}}))


def test_nobody_is_written_to_who_is_not_there() -> None:
    ROUTING.check(Message(send_to={"a", "m.b", "<all>", "<none>", "<self>"}))
    with pytest.raises(UnknownRoleError, match="'d'"):
        ROUTING.check(Message(send_to={"a", "d"}))
    with pytest.raises(RoleDeclarationError):
        Routing([post("a"), post("a")])


def test_what_leads_to_several_messages() -> None:
    news = [
        Message(acts={"a": 1, "b": 2}, max_rounds=5),
        Message(acts={"b": 1, "c": 1}, max_rounds=3),
        Message(),
    ]
    assert merged(news) == {"a": 1, "b": 2, "c": 1}
    assert rounds_of(news) == 3
    assert rounds_of([Message()]) is None
    check_hops({"a": 2}, 3, "b")
    with pytest.raises(HopLimitError):
        check_hops({"a": 2, "b": 1}, 3, "b")


class Somebody(Role):
    @property
    def agent_type(self) -> str:
        return "b"

    @property
    def address(self) -> str:
        return "m.B"

    def cause(self) -> str:
        return "x"


def said(*messages: Message, **circumstances: Any) -> list[Message]:
    acting = Acting(Somebody(), [Message(id="n", **circumstances)], (Part("s", 3, 10),))
    for message in messages:
        acting.say(message)
    return acting.messages()


def test_what_is_said_has_its_cause_its_sender_and_the_bounds_of_what_it_answers_to() -> None:
    [message] = said(Message("a"), acts={"a": 1, "b": 1}, max_rounds=4)
    assert (message.cause_by, message.sent_from, message.max_rounds) == ("x", "m.B", 4)
    assert message.acts == {"a": 1, "b": 2}
    assert message.part == "3"
    [message] = said(Message("a", cause_by="y", sent_from="me", max_rounds=9), max_rounds=4)
    assert (message.cause_by, message.sent_from, message.max_rounds) == ("y", "me", 9)
    assert said(Message("a", send_to="<none>")) == []


def test_several_of_one_action_are_subtasks() -> None:
    messages = said(Message("1"), Message("other", cause_by="y"), Message("2"), Message("to a", send_to="a"))
    assert [message.part for message in messages] == ["3.1", "3", "3.2", "3"]
    assert messages[0].subtask[-1] == Part("n x", 1, 2)


def test_names_on_the_bus() -> None:
    assert bus_name("Ada Lovelace") == "Ada-x20-Lovelace"
    assert topic_of("m.Write", joined=True) == "m.Write:join"
    assert PostDestination("x", "", "1") == PostDestination("x", "", "1")
