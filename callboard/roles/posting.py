"""Sending messages of roles: each to its topic or its role, and all of them to the history of the project."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from callboard.broker import AgentId, TopicId
from callboard.protocol import AgentRuntime

from .message import Message
from .routing import Destination, Routing

SEPARATOR = "/"


def key_of(project: str, part: str) -> str:
    """The key of the agents that work on a part of a project; "": on the whole of it."""
    return f"{project}{SEPARATOR}{part}" if part else project


def project_of(key: str) -> str:
    """The project of an agent, from its key."""
    return key.partition(SEPARATOR)[0]


async def say_all(
    runtime: AgentRuntime, routing: Routing, messages: Sequence[Message], sender: AgentId
) -> None:
    """Send what a role said in one act; everything leaves with the commit of its handler."""
    project = project_of(sender.key)
    if messages:
        await runtime.write_run(project, messages)
    for message in messages:
        for destination in routing.destinations(message, sender.type):
            # A role that watches its own action wants to hear itself, and the bus leaves that out where it knows the sender.
            is_own = destination.topic and message.cause_by in routing[sender.type].watch
            await _send(runtime, destination, message, project, None if is_own else sender, None)


async def bring_in(
    runtime: AgentRuntime, routing: Routing, messages: Sequence[Message], project: str
) -> None:
    """Send messages that come from outside, at once and in order; one with the id of an earlier one is not sent."""
    # The history first: a caller that dies in between sends them again, and the history shows each id once.
    await runtime.write_run(project, messages)
    await asyncio.gather(
        *(
            _send(
                runtime, one, message, project, None, f"{project}:{message.id}:{one.topic or one.agent_type}"
            )
            for message in messages
            for one in routing.destinations(message)
        )
    )


async def _send(
    runtime: AgentRuntime,
    destination: Destination,
    message: Message,
    project: str,
    sender: AgentId | None,
    message_id: str | None,
) -> None:
    key = key_of(project, destination.part)
    if destination.topic:
        topic = TopicId(destination.topic, key)
        await runtime.publish_message(message, topic, sender=sender, message_id=message_id, strict=False)
    else:
        await runtime.tell(
            message, AgentId(destination.agent_type, key), sender=sender, message_id=message_id
        )
