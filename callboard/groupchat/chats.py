"""What comes of a chat, chats one after the other, and chats that an agent has in order to answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from callboard.agents.base import twin_of
from callboard.foundation.tasks import together

from .errors import GroupChatDeclarationError
from .events import value_of, wait_for
from .messages import Agent, Message, text_of
from .model import ModelUsage, added_up
from .replies import Answered

Conversable: TypeAlias = Any
"""A ConversableAgent, whose module builds on this one."""
Chat: TypeAlias = Mapping[str, Any]
"""One chat of a queue: "recipient", "sender", "message" and the other arguments of `initiate_chat`; see `initiate_chats`."""

Opening: TypeAlias = str | Message | Callable[..., Any] | None
Summary: TypeAlias = str | Callable[..., Any] | None
CONTEXT: Final = "\nContext: \n"
OF_QUEUE: Final = ("sender", "recipient", "chat_id", "prerequisites", "carryover", "carryover_config")
EXCLUDED: Final = "finished_chat_indexes_to_exclude_from_carryover"


@dataclass
class ChatResult:
    """The outcome of a chat.

    Attributes:
        chat_history: The messages, as the one who began it has them.
        summary: As `summary_method` makes it.
        cost: Tokens and dollars by model, in AG2's shape, with all that a model spent to choose speakers.
        human_input: What the person behind the one who began it said.
        stop_reason: Why it ended; None: nothing says so.
        chat_id: A number of its own.
    """

    chat_history: list[Message] = field(default_factory=list)
    summary: str | Message = ""
    cost: dict[str, Any] = field(default_factory=lambda: ModelUsage().cost())
    human_input: list[str] = field(default_factory=list)
    stop_reason: str | None = None
    chat_id: int = field(default_factory=lambda: uuid.uuid4().int)


REFLECTION: Final = "reflection_with_llm"
SUMMARISE: Final = "Summarize the conversation above. Leave out introductions, and add nothing."


async def first_message(
    me: Conversable, recipient: Conversable, message: Opening, context: dict[str, Any]
) -> str | Message:
    """The message that a chat begins with."""
    if message is None:
        said: str | Message = await me.a_get_human_input("The first message: ")
    elif callable(message):
        said = cast("str | Message", await value_of(message(me, recipient, context)))
    else:
        said = message
    return with_carryover(said, context.get("carryover"))


async def summary_of(
    me: Conversable, recipient: Conversable, method: Summary, arguments: dict[str, Any]
) -> str | Message:
    """The summary of a chat, as `summary_method` makes it."""
    if method is None:
        return ""
    if callable(method):
        return cast("str", await value_of(method(me, recipient, arguments)))
    if method == REFLECTION:
        author = recipient if recipient.client is not None else me
        return cast("str", await author.summarize(recipient.chat_messages_for_summary(me), arguments))
    last = recipient.chat_messages[me][-1:]
    return text_of(last[0].get("content")).replace("TERMINATE", "") if last else ""


def used_by(*agents: Conversable) -> ModelUsage:
    """The usage of some agents, and of those behind them, so far."""
    everybody = {id(agent): agent for one in agents for agent in one.who_pays()}
    return added_up(agent.usage for agent in everybody.values())


def with_carryover(opening: str | Message, carried: Any) -> str | Message:
    """A first message that ends with what is carried over: a text, or a list of texts and messages.

    Raises:
        GroupChatDeclarationError: It is something else (a ValueError).
    """
    if not carried:
        return opening
    if not isinstance(carried, str | list | tuple):
        raise GroupChatDeclarationError(
            f"carryover is a {type(carried).__name__}: give a text, or a list of texts."
        )
    items = [carried] if isinstance(carried, str) else [_item(one) for one in carried]
    more = CONTEXT + "\n".join(items)
    if not isinstance(opening, Mapping):
        return f"{opening}{more}"
    content = opening.get("content")
    if isinstance(content, list):
        return {**opening, "content": [{"type": "text", "text": more}, *content]}
    return {**opening, "content": text_of(content) + more}


def _item(one: Any) -> str:
    return text_of(one.get("content")) if isinstance(one, Mapping) and "content" in one else str(one)


def initiate_chats(chat_queue: Sequence[Chat]) -> list[ChatResult]:
    """Let agents chat, one chat after the other, each told what came of those before.

    Args:
        chat_queue: The chats: "sender", "recipient", "message" and the other arguments of `initiate_chat`. "carryover": what
            the message ends with, before the summaries of the chats that have ended;
            "finished_chat_indexes_to_exclude_from_carryover": which of these it does not get.

    Returns:
        What came of each.

    Raises:
        GroupChatDeclarationError: A chat has no sender or no recipient (a ValueError).
    """
    return wait_for(in_turn(chat_queue))


async def a_initiate_chats(chat_queue: Sequence[Chat]) -> dict[int, ChatResult]:
    """Let agents chat at the same time, each when the chats are over that it waits for.

    Args:
        chat_queue: As for `initiate_chats`. "chat_id": a number, by default its place in the queue; "prerequisites": the
            numbers of the chats that it waits for, and is told the summaries of; all others begin at once.

    Returns:
        What came of each, by its number.

    Raises:
        GroupChatDeclarationError: A number is there twice or belongs to no chat, or chats wait for each other (a
            ValueError).
    """
    numbered = {int(chat.get("chat_id", place)): chat for place, chat in enumerate(chat_queue)}
    waits = {number: [int(one) for one in chat.get("prerequisites", ())] for number, chat in numbered.items()}
    if len(numbered) < len(chat_queue) or not {one for ones in waits.values() for one in ones} <= set(
        numbered
    ):
        raise GroupChatDeclarationError(
            f"Give each chat a chat_id of its own, and as prerequisites only these: {sorted(numbered)}."
        )
    _check_order(waits)
    ended: dict[int, asyncio.Future[ChatResult]] = {
        number: asyncio.get_running_loop().create_future() for number in numbered
    }

    async def one(number: int, chat: Chat) -> ChatResult:
        before = {first: await ended[first] for first in waits[number]}
        result = await _chat(chat, before)
        result.chat_id = number
        ended[number].set_result(result)
        return result

    results = await together(one(number, chat) for number, chat in numbered.items())
    return dict(zip(numbered, results, strict=True))


def _check_order(waits: Mapping[int, Sequence[int]]) -> None:
    """Refuse chats that wait for each other, which would never begin."""
    left = dict(waits)
    while ready := [number for number, first in left.items() if not set(first) & set(left)]:
        for number in ready:
            del left[number]
    if left:
        raise GroupChatDeclarationError(
            f"The chats {sorted(left)} wait for each other: none of them can begin."
        )


async def in_turn(chat_queue: Sequence[Chat]) -> list[ChatResult]:
    """Let agents chat, one chat after the other; see `initiate_chats`."""
    results: list[ChatResult] = []
    for chat in chat_queue:
        results.append(await _chat(chat, dict(enumerate(results))))
    return results


async def _chat(chat: Chat, before: Mapping[int, ChatResult]) -> ChatResult:
    sender, recipient = chat.get("sender"), chat.get("recipient")
    if sender is None or recipient is None:
        raise GroupChatDeclarationError('A chat of a queue needs a "sender" and a "recipient": the agents.')
    given = chat.get("carryover") or []
    carried = [given] if isinstance(given, str) else list(given)
    left_out = chat.get(EXCLUDED, ())
    carried += [result.summary for number, result in before.items() if number not in left_out]
    options = {name: value for name, value in chat.items() if name not in (*OF_QUEUE, EXCLUDED, "verbose")}
    result: ChatResult = await sender.a_initiate_chat(recipient, carryover=carried, **options)
    return result


# Chats that an agent has to answer

FromNested: TypeAlias = Callable[..., Any]
SUMMARY: Final = "summary_from_nested_chats"


def nested_reply(chat_queue: Sequence[Chat], reply: str | FromNested) -> Callable[..., Awaitable[Answered]]:
    """A reply function that answers with what came of other chats.

    Args:
        chat_queue: The chats. Without a sender the agent itself begins one; the first one begins with the last message
            unless it says something else.
        reply: "summary_from_nested_chats", or a function of the queue, the agent, messages, sender and config, which may be
            async and returns whether its answer counts, and the answer.

    Raises:
        GroupChatDeclarationError: `reply` is neither (a ValueError).
    """
    if reply != SUMMARY and not callable(reply):
        raise GroupChatDeclarationError(
            f"reply_func_from_nested_chats is {reply!r}: give {SUMMARY!r}, or a function."
        )

    async def answer(
        agent: Conversable,
        messages: Sequence[Message] | None = None,
        sender: Agent | None = None,
        config: Any = None,
    ) -> Answered:
        if callable(reply):
            answered: Answered = await value_of(reply(chat_queue, agent, messages, sender, config))
            return answered
        chats = await _chats_to_have(chat_queue, agent, messages or (), sender, config)
        if sender is not None and sender is agent.member.group:
            # A member of a team is one of many copies, in whatever process: chats of two conversations would mix in the
            # agents that they share.
            chats = _between_copies(agent, chats)
        results = await in_turn(chats)
        return True, results[-1].summary if results else None

    return answer


async def _chats_to_have(
    chat_queue: Sequence[Chat],
    agent: Conversable,
    messages: Sequence[Message],
    sender: Agent | None,
    config: Any,
) -> list[dict[str, Any]]:
    """The chats that have something to begin with."""
    chats: list[dict[str, Any]] = []
    for place, chat in enumerate(chat_queue):
        opening = chat.get("message")
        if opening is None and place == 0:
            opening = text_of(messages[-1].get("content")) if messages else ""
        if callable(opening):
            opening = await value_of(opening(agent, messages, sender, config))
        if opening and place == 0 and (carry := chat.get("carryover_config")):
            opening = with_carryover(opening, await _carried(carry, agent, messages))
        if opening:
            chats.append({**chat, "message": opening, "sender": chat.get("sender") or agent})
    return chats


async def _carried(how: Mapping[str, Any], agent: Conversable, messages: Sequence[Message]) -> Any:
    """What of the chat around it the first nested chat is told; the message that it answers is its opening."""
    method, earlier = how.get("summary_method"), list(messages[:-1])
    if callable(method):
        return await value_of(method(agent, earlier, how.get("summary_args") or {}))
    if method == "all":
        return [text for one in earlier if (text := text_of(one.get("content")))]
    if method == "last_msg":
        return [text_of(one.get("content")) for one in earlier[-1:]]
    if method == "reflection_with_llm":
        return await agent.summarize(earlier, how.get("summary_args") or {})
    raise GroupChatDeclarationError(
        f'carryover_config has the summary_method {method!r}: give "all", "last_msg", "reflection_with_llm", or a function.'
    )


def _between_copies(agent: Conversable, chats: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    copies: dict[int, Conversable] = {}

    def copy(one: Conversable) -> Conversable:
        made = copies.setdefault(id(one), twin_of(one))
        made.part, made.usage = None, agent.usage
        return made

    return [
        {**chat, "sender": copy(chat["sender"]), "recipient": copy(chat["recipient"]), "silent": True}
        for chat in chats
    ]
