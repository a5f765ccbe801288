"""A handler finds everything that it is told, and what it does not look at is not made."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from callboard import AgentId, MessageContext, TopicId
from callboard.broker import BrokerSettings, MessageRegistry
from callboard.broker.envelope import Delivery, Envelope
from callboard.broker.redis.client.transport import RedisTransport
from callboard.core.cancellation import CancellationToken
from callboard.runtime.effects import EffectRecorder
from callboard.runtime.execution import LATER, HandlerContext, Surroundings

EVENT = Envelope("m1", "Note", "a", "clerk/ada", 5, b"")
ASKED = Envelope("m2", "Ask", "a", None, 5, b"", "request", deadline=17_500, run="r1")


def context(
    envelope: Envelope = EVENT, stream: bytes = b"topic:notes", tries: bytes = b"", outer: Any = None
) -> HandlerContext:
    transport = RedisTransport("memory://context", BrokerSettings(namespace="shop"))
    delivery = Delivery(b"worker", stream, b"1-0", tries, b"a", outer or envelope)
    return HandlerContext.of(Surroundings(transport, MessageRegistry()), "worker", envelope, delivery)


async def test_it_tells_of_an_event() -> None:
    told = context(tries=b"2 5 0 no")
    assert told.sender == AgentId("clerk", "ada")
    assert told.topic_id == TopicId("notes", "a")
    assert (told.is_rpc, told.message_id, told.attempt, told.deadline) == (False, "m1", 3, None)
    assert (told.scope, told.run_id) == ("shop/worker", None)
    assert told.cancellation_token is told.cancellation_token
    assert not told.cancellation_token.is_cancelled()


async def test_it_tells_of_a_request() -> None:
    told = context(ASKED, b"inbox:worker")
    assert (told.sender, told.topic_id, told.is_rpc) == (None, None, True)
    assert (told.deadline, told.run_id) == (17.5, "r1")


async def test_what_was_sent_to_the_agent_itself_has_no_topic_and_a_replayed_one_has_its_own() -> None:
    assert context(stream=b"inbox:worker").topic_id is None
    assert context(EVENT._replace(topic="old"), b"inbox:worker").topic_id == TopicId("old", "a")


async def test_it_has_every_field_of_a_context_and_nothing_else() -> None:
    assert {*LATER, "is_rpc"} == {field.name for field in dataclasses.fields(MessageContext)}
    with pytest.raises(AttributeError, match="'typo'"):
        context().typo  # noqa: B018


async def test_a_recorder_is_made_when_it_is_looked_at() -> None:
    told = context()
    assert not told.is_recorded
    recorder = told.recorder
    assert isinstance(recorder, EffectRecorder)
    assert told.is_recorded
    assert told.recorder is recorder


async def test_a_copy_has_the_fields_of_the_first() -> None:
    told = context()
    token = CancellationToken()
    changed = dataclasses.replace(told, scope="other", cancellation_token=token)
    assert (changed.message_id, changed.topic_id, changed.scope) == ("m1", told.topic_id, "other")
    assert changed.recorder is told.recorder
    assert changed.cancellation_token is token
    with pytest.raises(AttributeError):
        changed.typo  # noqa: B018
    assert copy.copy(told) == told
    assert "topic_id=TopicId" in repr(told)
