"""Going on with an earlier group chat."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, TypeAlias

from callboard.foundation.json_texts import read_json

from .agent import Agent, Message
from .content import text_of
from .conversable import ConversableAgent
from .errors import ResumeError
from .events import GroupChatResumeEvent
from .leader import Leader
from .peer import Peer
from .stream import IOStream
from .usage import ModelUsage

log = logging.getLogger(__name__)

Resumable: TypeAlias = Sequence[Message] | Mapping[str, Any] | str
Change: TypeAlias = str | Callable[[str], str] | None

STATE: Final = "GroupChatManagerState"


def to_text(messages: Sequence[Message]) -> str:
    """Messages as JSON."""
    return json.dumps(messages)


def from_text(text: str) -> Any:
    """What JSON says.

    Raises:
        ResumeError: It is none (a ValueError).
    """
    try:
        return read_json(text)
    except ValueError as error:
        raise ResumeError(f"this is no JSON: {error}.") from error


def dump(manager: Leader, rounds: int) -> dict[str, Any]:
    """A group chat as plain data."""
    agents = manager.who_pays()
    return {
        "type": STATE,
        "version": "1.0.0",
        "messages": deepcopy(manager.groupchat.messages),
        "rounds": rounds,
        "context_variables": {agent.name: agent.context_variables.to_dict() for agent in agents},
        "usage": {agent.name: agent.usage.dump() for agent in agents},
    }


async def resume(
    manager: Leader, given: Resumable, change: Change, silent: bool | None
) -> tuple[ConversableAgent, Message]:
    """See `GroupChatManager.a_resume`."""
    messages, state = read(manager, given, change, silent)
    manager.forget_all()
    for message in messages[:-1]:
        await _replay(manager, message)
    last = messages[-1]
    if state is not None:
        _restore(manager, state)
    manager.groupchat.send_introductions = False
    speaker = manager.groupchat.agent_by_name(last["name"])
    return speaker if isinstance(speaker, ConversableAgent) else manager, last


def read(
    manager: Leader, given: Resumable, change: Change, silent: bool | None
) -> tuple[list[Message], Mapping[str, Any] | None]:
    """The messages of an earlier chat, the last one changed, and what else was saved of it; None: nothing.

    Raises:
        ResumeError: There are no messages, or somebody said one who is not in the group (a ValueError).
    """
    data = from_text(given) if isinstance(given, str) else given
    state = data if isinstance(data, Mapping) and data.get("type") == STATE else None
    messages = _messages(data if state is None else state.get("messages"), manager)
    _change(messages[-1], change)
    if manager.is_termination_msg(messages[-1]):
        log.warning("the last message of the resumed chat ends it again: %s", manager.name)
    if not silent:
        IOStream.get_default().send(GroupChatResumeEvent(messages[-1]["name"], messages))
    return messages, state


def rounds_before(state: Mapping[str, Any]) -> int:
    """How many rounds there were: the last message is said again, as a round of its own."""
    return max(0, int(state.get("rounds", 0)) - 1)


def _messages(given: Any, manager: Leader) -> list[Message]:
    """The messages as a copy; each has a name and a role."""
    if not isinstance(given, list | tuple) or not all(isinstance(message, dict) for message in given):
        raise ResumeError(
            "a list of messages is needed, as objects, or the JSON of one, or what save_state returned."
        )
    if not given:
        raise ResumeError("there are no messages. Begin a chat with initiate_chat instead.")
    chat = manager.groupchat
    names = {*chat.agent_names, chat.admin_name, manager.name}
    messages = [{"role": "user", **deepcopy(message)} for message in given]
    for message in messages:
        message["name"] = message.get("name") or manager.name
        if message["name"] not in names:
            raise ResumeError(f"nobody of the group is named {message['name']!r}.")
    return messages


async def _replay(manager: Leader, message: Message) -> None:
    """Everybody has said and heard it."""
    speaker: Agent = manager.groupchat.agent_by_name(message["name"]) or manager
    for agent in manager.groupchat.agents:
        if not isinstance(agent, Peer):
            continue
        if agent is speaker:
            await agent.a_send(message, manager, request_reply=False, silent=True)
        else:
            await manager.a_send(message, agent, request_reply=False, silent=True)
    manager.groupchat.messages.append(dict(message))


def _change(message: Message, change: Change) -> None:
    content = message.get("content")
    if change is None or not content:
        return
    text = text_of(content)
    message["content"] = text.replace(change, "") if isinstance(change, str) else change(text)


def _restore(manager: Leader, state: Mapping[str, Any]) -> None:
    variables, usage = state.get("context_variables", {}), state.get("usage", {})
    for agent in manager.who_pays():
        if agent.name in variables:
            agent.context_variables.clear()
            agent.context_variables.update(deepcopy(variables[agent.name]))
        if agent.name in usage:
            agent.usage = ModelUsage.load(usage[agent.name])
    manager.go_on_from_round(rounds_before(state))
