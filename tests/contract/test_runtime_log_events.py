"""AutoGen's log events of messages."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from callboard import (
    EVENT_LOGGER_NAME,
    AgentId,
    ClosureContext,
    DefaultInterventionHandler,
    DropMessage,
    MessageContext,
    MessageDroppedException,
    TopicId,
)
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure


class Dropping(DefaultInterventionHandler):
    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        return DropMessage if message.text == "drop" else message

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        return DropMessage if message.text == "drop" else message


async def _clerk(agent: ClosureContext, message: Ask | Note, ctx: MessageContext) -> Answer | None:
    if message.text == "fail":
        raise ValueError("no such word")
    return Answer(text="yes") if isinstance(message, Ask) else None


def _logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(str(one.msg)) for one in caplog.records if one.name == EVENT_LOGGER_NAME]


def _way(events: list[dict[str, Any]]) -> list[tuple[str, str, str, str | None]]:
    return [
        (
            one["kind"].partition(".")[2],
            one["delivery_stage"].partition(".")[2],
            one["payload"],
            one["receiver"],
        )
        for one in events
        if one["type"] == "Message"
    ]


async def test_a_request_and_its_response_are_logged_on_both_sides(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, EVENT_LOGGER_NAME)
    runtime = await runtimes.started()
    await closure(runtime, "clerk", _clerk)
    await runtime.send_message(Ask(text="?"), AgentId("clerk", "a"))
    assert _way(_logged(caplog)) == [
        ("DIRECT", "SEND", '{"text":"?"}', "clerk/a"),
        ("DIRECT", "DELIVER", '{"text":"?"}', "clerk/a"),
        ("RESPOND", "SEND", '{"text":"yes"}', None),
        ("RESPOND", "DELIVER", '{"text":"yes"}', None),
    ]


async def test_what_is_published_dropped_and_fails_is_logged(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, EVENT_LOGGER_NAME)
    runtime = await runtimes.started(intervention_handlers=[Dropping()])
    await closure(runtime, "clerk", _clerk, "news")
    await runtime.publish_message(Note(text="n"), TopicId("news", "a"))
    await runtime.publish_message(Note(text="drop"), TopicId("news", "a"))
    with pytest.raises(MessageDroppedException):
        await runtime.send_message(Ask(text="drop"), AgentId("clerk", "a"))
    with pytest.raises(ValueError, match="no such word"):
        await runtime.send_message(Ask(text="fail"), AgentId("clerk", "a"))
    logged = _logged(caplog)
    assert ("PUBLISH", "DELIVER", '{"text":"n"}', "clerk/a") in _way(logged)
    dropped = [(one["kind"], one["receiver"]) for one in logged if one["type"] == "MessageDropped"]
    assert dropped == [("MessageKind.PUBLISH", "news/a"), ("MessageKind.DIRECT", "clerk/a")]
    (failed,) = [one for one in logged if one["type"] == "MessageHandlerException"]
    assert (failed["handling_agent"], failed["exception"]) == ("clerk/a", "no such word")


async def test_a_factory_that_raises_is_logged(runtimes: Runtimes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, EVENT_LOGGER_NAME)
    runtime = await runtimes.started()

    def broken() -> Any:
        raise ValueError("no paper")

    await runtime.register_factory("clerk", broken)
    with pytest.raises(ValueError, match="no paper"):
        await runtime.get("clerk", "a", lazy=False)
    (event,) = _logged(caplog)
    assert (event["type"], event["agent_id"], event["exception"]) == (
        "AgentConstructionException",
        "clerk/a",
        "no paper",
    )


async def test_where_nobody_listens_nothing_is_logged(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, EVENT_LOGGER_NAME)
    runtime = await runtimes.started()
    await closure(runtime, "clerk", _clerk)
    await runtime.send_message(Ask(text="?"), AgentId("clerk", "a"))
    assert not _logged(caplog)
