"""Keys, ids and senders that no worker would take are refused where the message is sent, whichever way it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from callboard import AgentId, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event, rpc
from callboard.broker.errors import InvalidIdError
from callboard.broker.ids import MOST_NAME
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, letters

LONG = "k" * (MOST_NAME + 1)
LONGEST = "é" * (MOST_NAME // 2)


class Echo(RoutedAgent):
    """Answers, and says what it heard; sends on what it is told to."""

    def __init__(self, heard: list[str], refused: list[str]) -> None:
        super().__init__("echo")
        self.heard, self.refused = heard, refused

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        await self.publish_message(Note(text="from afar"), TopicId("echo", "short"))
        return Answer(text=message.text)

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        self.heard.append(f"{message.text} from {ctx.sender}")
        if message.text == "send":
            try:
                await self.publish_message(Note(), TopicId("echo", LONG))
            except InvalidIdError as error:
                self.refused.append(str(error))


async def _runtime(runtimes: Runtimes) -> tuple[RedisAgentRuntime, list[str], list[str]]:
    from callboard import TypeSubscription

    runtime = await runtimes.started()
    heard: list[str] = []
    refused: list[str] = []
    await Echo.register(runtime, "echo", lambda: Echo(heard, refused))
    await runtime.add_subscription(TypeSubscription("echo", "echo"))
    return runtime, heard, refused


@pytest.mark.parametrize(
    "options", [{}, {"delay": 60}, {"message_id": "m" * (MOST_NAME + 1)}, {"claim_check": True}], ids=str
)
async def test_what_nobody_could_take_is_refused(runtimes: Runtimes, options: dict[str, Any]) -> None:
    runtime, heard, _ = await _runtime(runtimes)
    key = "short" if "message_id" in options else LONG
    with pytest.raises(InvalidIdError, match=r"has 1,025 bytes, the limit is 1,024: use a shorter one"):
        await runtime.publish_message(Note(), TopicId("echo", key), **options)
    if "delay" not in options:
        with pytest.raises(InvalidIdError, match="the limit is"):
            await runtime.send_message(Ask(), AgentId("echo", key), **options)
    await runtime.stop_when_idle()
    assert heard == []
    assert await letters(runtime, "echo") == []


async def test_the_longest_names_arrive_and_come_back(runtimes: Runtimes) -> None:
    """The sender of what such an agent sends is longer than its key."""
    runtime, heard, refused = await _runtime(runtimes)
    assert await runtime.send_message(Ask(text="hello"), AgentId("echo", LONGEST)) == Answer(text="hello")
    await runtime.publish_message(Note(text="send"), TopicId("echo", "short"), message_id=LONGEST)
    await runtime.stop_when_idle()
    assert sorted(heard) == [f"from afar from echo/{LONGEST}", "send from None"]
    assert len(refused) == 1
    assert await letters(runtime, "echo") == []


@pytest.mark.parametrize("name", ["t" * (MOST_NAME + 1), "é" * (MOST_NAME // 2 + 1)], ids=["ascii", "wide"])
def test_types_that_nobody_could_take_are_refused(name: str) -> None:
    with pytest.raises(InvalidIdError, match="the topic type of the message has"):
        TopicId(name, "default")
    with pytest.raises(InvalidIdError, match="the agent type of the message has"):
        AgentId(name, "default")


async def test_half_a_surrogate_pair_is_refused_where_it_is_written(runtimes: Runtimes) -> None:
    with pytest.raises(InvalidIdError, match="topic source"):
        TopicId("echo", "half \ud800")
    with pytest.raises(InvalidIdError, match="agent key"):
        AgentId("echo", "half \ud800")
    runtime = runtimes.new()
    for name in ("half \ud800", 5):
        wrong: dict[str, Any] = {"message_id": name}
        with pytest.raises(InvalidIdError, match="message id"):
            await runtime.publish_message(Note(), TopicId("echo", "a"), **wrong)
        with pytest.raises(InvalidIdError, match="message id"):
            await runtime.send_message(Ask(), AgentId("echo", "a"), **wrong)
