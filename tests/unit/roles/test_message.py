from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from pydantic import BaseModel

from callboard.broker.codec import MessageRegistry
from callboard.broker.errors import DecodeError
from callboard.roles import (
    MESSAGE_ROUTE_TO_ALL,
    Action,
    AIMessage,
    Message,
    MessageDataError,
    Role,
    SystemMessage,
    UserMessage,
    UserRequirement,
    any_to_str,
    any_to_str_set,
    known_content,
)
from callboard.roles.errors import RoleDeclarationError
from callboard.roles.message import plain_message


class Write(Action):
    pass


@known_content
class Design(BaseModel):
    title: str
    parts: list[int] = []


class Other(BaseModel):
    title: str


HERE = __name__


def test_what_is_left_out() -> None:
    message = Message("hello")
    assert (message.role, message.cause_by) == ("user", any_to_str(UserRequirement))
    assert (message.sent_from, message.send_to, message.metadata) == ("", {MESSAGE_ROUTE_TO_ALL}, {})
    assert len(message.id) == 32
    assert message.id != Message("hello").id
    assert not message.has_cause


@pytest.mark.parametrize("nobody", ["", None, set(), []])
def test_no_recipient_is_everybody_also_when_it_is_assigned_later(nobody: object) -> None:
    assert Message("a", send_to=nobody).send_to == {MESSAGE_ROUTE_TO_ALL}
    message = Message("a", send_to="Ada")
    message.send_to = nobody  # type: ignore[assignment]
    assert message.send_to == {MESSAGE_ROUTE_TO_ALL}


def test_classes_and_objects_stand_for_their_names() -> None:
    message = Message("a", cause_by=Write(), sent_from=Role, send_to={Role, "Ada"})
    assert message.cause_by == f"{HERE}.Write"
    assert message.sent_from == "callboard.roles.role.Role"
    assert message.send_to == {"callboard.roles.role.Role", "Ada"}
    assert any_to_str_set([Write, "b"]) == {f"{HERE}.Write", "b"}
    assert any_to_str_set({"x": Write}) == {f"{HERE}.Write"}


def test_a_class_of_the_main_program_has_the_name_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__file__ = "/somewhere/factory.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    in_main = type("Write", (Action,), {"__module__": "__main__"})
    assert any_to_str(in_main) == "factory.Write"


def test_it_is_the_same_after_a_journey() -> None:
    message = Message("a", instruct_content=Design(title="wheel"), send_to={"b", "a"}, metadata={"n": 1})
    assert Message.load(message.dump()) == message
    assert "max_rounds" not in json.loads(message.dump())
    registry = MessageRegistry()
    entry = registry.entry_for(message)
    assert entry.name == "callboard.roles.Message"
    assert registry.decode(entry.name, 1, entry.encode(message)) == message


@pytest.mark.parametrize("text", ["", "{", "[1]", "7"])
def test_what_is_no_json_object_is_no_message(text: str) -> None:
    assert Message.load(text) is None


@pytest.mark.parametrize(
    "content",
    [
        {"type": f"{HERE}.Other", "value": {"title": "x"}},
        {"type": "os.system", "value": {}},
        {"class": f"{HERE}.Design", "module": HERE, "value": {"title": "x"}},
        {"class": "x", "mapping": "{'a': (__import__('os').getpid(), ...)}", "value": {}},
        {"type": f"{HERE}.Design", "value": {"title": ["x"]}},
        "text",
    ],
)
def test_data_that_name_what_is_not_known_are_refused(content: object) -> None:
    data = json.dumps({"content": "a", "instruct_content": content})
    with pytest.raises(MessageDataError):
        Message.load(data)
    registry = MessageRegistry()
    registry.register(Message)
    with pytest.raises(DecodeError):
        registry.decode("callboard.roles.Message", 1, data.encode())


def test_what_is_not_known_is_not_sent_either() -> None:
    with pytest.raises(MessageDataError, match="known_content"):
        Message("a", instruct_content=Other(title="x")).dump()
    with pytest.raises(RoleDeclarationError, match="pydantic"):
        known_content(int)  # type: ignore[type-var]


def test_the_kinds_of_messages_travel_as_messages() -> None:
    for cls, role in ((UserMessage, "user"), (SystemMessage, "system"), (AIMessage, "assistant")):
        message = cls("a", cause_by=Write)
        plain = plain_message(message)
        assert (message.role, plain.role, type(plain), plain.id) == (role, role, Message, message.id)
        assert message.to_dict() == {"role": role, "content": "a"}
    assert plain_message(AIMessage("a")).has_cause is False
