"""Chats that an agent begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

from callboard.models.recorded import recorded

from .agent import Agent, Message, check_agents
from .content import text_of
from .model_messages import to_model
from .peer import Peer
from .result import ChatResult
from .usage import ModelUsage, added_up
from .waiting import value_of, wait_for

Opening: TypeAlias = str | Message | Callable[..., Any] | None
Summary: TypeAlias = str | Callable[..., Any] | None

LAST_MESSAGE: Final = "last_msg"
REFLECTION: Final = "reflection_with_llm"
SUMMARISE: Final = "Summarize the conversation above. Leave out introductions, and add nothing."


class Chatting(Peer):
    """The part of a `ConversableAgent` that begins chats."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._answers_to: dict[Agent, bool] = {}
        self.human_inputs = []

    async def a_initiate_chat(
        self,
        recipient: Peer,
        clear_history: bool = True,
        silent: bool | None = False,
        max_turns: int | None = None,
        summary_method: Summary = LAST_MESSAGE,
        summary_args: dict[str, Any] | None = None,
        message: Opening = None,
        **context: Any,
    ) -> ChatResult:
        """Chat with another agent, or with a group through its manager.

        Args:
            recipient: The other agent.
            clear_history: Whether both first forget what they said to each other; with a manager, the whole group does.
            silent: Whether nothing is shown.
            max_turns: How often this one speaks at most; None: until one of them ends it.
            summary_method: "last_msg", "reflection_with_llm", a function of sender, recipient and arguments, or None.
            summary_args: For the summary; "summary_prompt" for a model's.
            message: What is said first: a text, a message, or a function of sender, recipient and context. None: a person
                says it.
            **context: For these functions.

        Returns:
            What came of it.

        Raises:
            GroupChatDeclarationError: The recipient is no agent (a ValueError).
        """
        check_agents([recipient])
        before = _used(self, recipient)
        self.prepare_chat(recipient, clear_history, answers=max_turns is None)
        self.is_silent = recipient.is_silent = silent
        for turn in range(1 if max_turns is None else max_turns):
            said = await (
                _first(self, recipient, message, context) if turn == 0 else _following(self, recipient)
            )
            if said is None:
                break
            await self.a_send(said, recipient, None if max_turns is None else True, silent)
        summary = await _summary(self, recipient, summary_method, {**(summary_args or {}), **context})
        return ChatResult(
            chat_history=list(self.chat_messages[recipient]),
            summary=summary,
            cost=_used(self, recipient).minus(before).cost(),
            human_input=list(self.human_inputs),
            stop_reason=recipient.stop_reason,
        )

    def initiate_chat(self, recipient: Peer, *args: Any, **kwargs: Any) -> ChatResult:
        """Chat with another agent; see `a_initiate_chat`."""
        return wait_for(self.a_initiate_chat(recipient, *args, **kwargs))

    def who_pays(self) -> Sequence[Peer]:
        """The agents that a chat with this one is paid for: itself."""
        return [self]

    def prepare_chat(
        self, other: Peer, clear_history: bool, *, both: bool = True, answers: bool = True
    ) -> None:
        """A chat begins.

        Args:
            other: With whom.
            clear_history: Whether what they have said to each other is forgotten.
            both: Whether the other one prepares as well.
            answers: Whether each answers what the other says.
        """
        self.reset_consecutive_auto_reply_counter(other)
        self._answers_to[other] = answers
        if clear_history:
            self.clear_history(other)
            self.human_inputs.clear()
        if both:
            other.prepare_chat(self, clear_history, both=False, answers=answers)


async def _first(me: Peer, recipient: Peer, message: Opening, context: dict[str, Any]) -> str | Message:
    if message is None:
        return await me.a_get_human_input("The first message: ")
    if callable(message):
        return cast("str | Message", await value_of(message(me, recipient, context)))
    return message


async def _following(me: Peer, recipient: Peer) -> str | Message | None:
    return await me.a_generate_reply(sender=recipient)


async def _summary(me: Peer, recipient: Peer, method: Summary, arguments: dict[str, Any]) -> str | Message:
    if method is None:
        return ""
    if callable(method):
        return cast("str", await value_of(method(me, recipient, arguments)))
    if method == REFLECTION:
        return await _reflection(me, recipient, arguments)
    last = recipient.chat_messages[me][-1:]
    return text_of(last[0].get("content")).replace("TERMINATE", "") if last else ""


async def _reflection(me: Peer, recipient: Peer, arguments: dict[str, Any]) -> str:
    author = recipient if recipient.client is not None else me
    if author.client is None:
        return ""
    prompt = {"role": "system", "content": arguments.get("summary_prompt", SUMMARISE)}
    messages = to_model([*recipient.chat_messages_for_summary(me), prompt], author.name)
    result = await recorded(author.client).create(messages)
    author.note_answer(result)
    return result.content if isinstance(result.content, str) else ""


def _used(*agents: Peer) -> ModelUsage:
    """What they and those behind them have used so far."""
    everybody = {id(agent): agent for one in agents for agent in one.who_pays()}
    return added_up(agent.usage for agent in everybody.values())
