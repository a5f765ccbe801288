"""Helper agents, who let others chat and return to the one who handed over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from callboard.agents.copying import twin_of
from callboard.groupchat.agent import Agent, Message
from callboard.groupchat.content import text_of
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.errors import HandoffError
from callboard.groupchat.handoffs.chat_targets import GroupChatConfig, GroupChatTarget, NestedChatTarget
from callboard.groupchat.handoffs.target import TransitionTarget
from callboard.groupchat.waiting import value_of

PREFIX: Final = "wrapped_"
CONTEXT: Final = "\nContext: \n"
DONE: Final = "Group chat completed."

Answer = Callable[..., Awaitable[tuple[bool, str | None]]]


def helper_for(target: TransitionTarget, parent: str, number: int) -> ConversableAgent:
    """The helper for a target.

    Args:
        target: A NestedChatTarget or a GroupChatTarget.
        parent: Name of the agent who hands over.
        number: Of the helper among those of this agent, from 1.

    Raises:
        HandoffError: It needs a helper, and there is none for its class (a ValueError).
    """
    match target:
        case NestedChatTarget(nested_chat_config=config):
            kind, answer = "nested", _nested_chats(config)
        case GroupChatTarget(group_chat_config=chat):
            kind, answer = "group", _group_chat(chat)
        case _:
            raise HandoffError(f"There is no helper for a {type(target).__name__}.")
    helper = ConversableAgent(
        f"{PREFIX}{kind}_{parent}_{number}",
        human_input_mode="NEVER",
        description=f"Lets others chat for {parent}.",
    )
    helper.register_reply([Agent, None], answer, remove_other_reply_funcs=True)
    return helper


def _nested_chats(config: Mapping[str, Any]) -> Answer:
    queue: Sequence[Mapping[str, Any]] = config["chat_queue"]

    async def answer(
        helper: ConversableAgent,
        messages: Sequence[Message] | None = None,
        sender: Agent | None = None,
        config_: Any = None,
        **_: Any,
    ) -> tuple[bool, str | None]:
        said, summaries = messages or (), list[str]()
        last = text_of(said[-1].get("content")) if said else ""
        for number, chat in enumerate(queue):
            recipient = _copy(chat["recipient"])
            opening = chat.get("message")
            if opening is None and number == 0:
                opening = last
            if callable(opening):
                opening = await value_of(opening(recipient, said, sender, config.get("config")))
            if not opening:
                continue
            summaries.append(await _chat(helper, recipient, chat, opening, summaries))
        return True, summaries[-1] if summaries else None

    return answer


async def _chat(
    helper: ConversableAgent,
    recipient: ConversableAgent,
    chat: Mapping[str, Any],
    opening: Any,
    summaries: Sequence[str],
) -> str:
    """One chat; what its models used, the helper has used."""
    given = chat.get("sender")
    starter = ConversableAgent(helper.name, human_input_mode="NEVER") if given is None else _copy(given)
    carried = chat.get("carryover") or []
    carried = [carried] if isinstance(carried, str) else [str(one) for one in carried]
    result = await starter.a_initiate_chat(
        recipient,
        message=_with(opening, [*carried, *summaries]),
        max_turns=chat.get("max_turns", 1),
        summary_method=chat.get("summary_method", "last_msg"),
        summary_args=chat.get("summary_args"),
        silent=True,
    )
    for agent in (starter, recipient):
        helper.usage.merge(agent.usage)
    return text_of(result.summary)


def _with(opening: Any, carried: Sequence[str]) -> Any:
    if not carried:
        return opening
    more = CONTEXT + "\n".join(carried)
    return (
        {**opening, "content": text_of(opening.get("content")) + more}
        if isinstance(opening, dict)
        else f"{opening}{more}"
    )


def _copy(agent: ConversableAgent) -> ConversableAgent:
    """For this chat alone, so that chats side by side never mix."""
    mine = twin_of(agent)
    mine.part = None
    mine.usage = type(mine.usage)()
    return mine


def _group_chat(config: GroupChatConfig) -> Answer:
    async def answer(
        helper: ConversableAgent,
        messages: Sequence[Message] | None = None,
        sender: Agent | None = None,
        **_: Any,
    ) -> tuple[bool, str | None]:
        pattern = config.pattern.for_conversation()
        result, _variables, _last = await pattern.chat(config.messages, config.max_rounds, silent=True)
        for agent in pattern.everybody():
            helper.usage.merge(agent.usage)
        return True, text_of(result.summary) or DONE

    return answer
