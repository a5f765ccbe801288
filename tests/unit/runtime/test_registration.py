"""Entries of agent types."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from callboard import Agent, AgentId, AgentRuntime, BaseAgent, MessageContext
from callboard.core.declaration import AgentSettings
from callboard.errors import DeclarationError
from callboard.runtime.agents import LiveAgent, LocalAgentType
from callboard.runtime.errors import UnknownInstanceError

ID = AgentId("worker", "a")


class Plain(BaseAgent):
    """Keeps nothing."""

    async def on_message_impl(self, message: object, ctx: MessageContext) -> None: ...


class Persistent(Plain):
    """Keeps a number."""

    class State(BaseModel):
        """The number."""

        number: int = 0


def _entry(factory: object, expected: type | None) -> LocalAgentType:
    return LocalAgentType("worker", factory, expected, AgentSettings())  # type: ignore[arg-type]


def test_whether_a_type_is_persistent() -> None:
    assert not _entry(Plain, Plain).persistent
    assert not _entry(Plain, None).persistent
    assert _entry(Persistent, Persistent).persistent


def test_a_factory_is_called_without_arguments() -> None:
    entry = _entry(lambda: "made", Plain)
    assert entry.construct(ID) == "made"
    with pytest.raises(UnknownInstanceError, match=r"worker/a.*register a factory") as caught:
        _entry(None, Plain).construct(ID)
    assert isinstance(caught.value, RuntimeError)


def test_what_a_factory_may_make() -> None:
    _entry(Plain, Plain).check(Persistent.__base__())  # type: ignore[misc]
    _entry(Plain, None).check(Plain())
    _entry(Persistent, Persistent).check(Persistent())
    with pytest.raises(DeclarationError, match="made a str; it was registered for Agent"):
        _entry(str, None).check("no agent")
    with pytest.raises(DeclarationError, match="made a Plain; it was registered for Persistent"):
        _entry(Plain, Persistent).check(Plain())


@pytest.mark.parametrize("expected", [None, Plain])
def test_a_state_that_nobody_was_told_of(expected: type | None) -> None:
    with pytest.raises(DeclarationError, match="expected_class=Persistent") as caught:
        _entry(Persistent, expected).check(Persistent())
    assert "the factory of 'worker' made a Persistent" in str(caught.value)


def test_a_class_that_is_checked_once() -> None:
    class Own(Plain):
        """Sees itself to how it is bound."""

        async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None: ...

    entry = _entry(Plain, Plain)
    assert entry.usual_class is None
    entry.check(Plain())
    assert entry.usual_class is Plain
    entry.check(Own())
    assert entry.usual_class is None, "each of them is bound by its own method"


def test_an_agent_that_just_came_to_life() -> None:
    agent: Agent = Plain()
    live = LiveAgent(agent, ID)
    assert (live.saved, live.version, live.mailbox) == (None, 0, None)
