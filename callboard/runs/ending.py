"""When a run ends by what is said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.conditions.base import Messages
from callboard.conditions.latched import LatchedTermination
from callboard.groupchat.agent import Message
from callboard.groupchat.waiting import value_of
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage, StopMessage

from .projection import message_of

OVER: Final = "Termination message condition on {who} met"
ANSWERED: Final = "{who} has answered."

IsOver = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class EndRule:
    """Somebody whom a message may tell that the run is over.

    Attributes:
        who: The name, for the reason.
        is_over: Is given the message, or its text; may be async.
        takes_text: Whether it is given the text.
        hears_itself: Whether it is asked about its own messages.
    """

    who: str
    is_over: IsOver
    takes_text: bool = False
    hears_itself: bool = False

    async def ends(self, message: Message) -> bool:
        """Whether this message is the end."""
        if not self.hears_itself and message["sender"] == self.who:
            return False
        return bool(await value_of(self.is_over(message["text"] if self.takes_text else message)))


class RunEnding(LatchedTermination):
    """Is reached by a message that one of the rules takes for the last one, and by a StopMessage.

    Args:
        rules: The rules.
        answers: Whether any message of a member is the last one: the run asks one question.
        members: Names of the members: what others say, such as a task, ends nothing.
    """

    def __init__(self, rules: Sequence[EndRule], *, members: Collection[str], answers: bool = False) -> None:
        super().__init__()
        self._rules = rules
        self._members = members
        self._answers = answers

    def __deepcopy__(self, memo: dict[int, Any]) -> RunEnding:
        """For another conversation; the functions stay the same."""
        return RunEnding(self._rules, members=self._members, answers=self._answers)

    async def reason(self, messages: Messages) -> str | None:
        """Why it ends."""
        for said in messages:
            if isinstance(said, StopMessage):
                return said.content
            if isinstance(said, BaseChatMessage) and not isinstance(said, HandoffMessage):
                reason = await self._reason(said)
                if reason is not None:
                    return reason
        return None

    async def _reason(self, said: BaseChatMessage) -> str | None:
        if said.source not in self._members:
            return None
        message = message_of(said)
        if message.get("tool_calls") or message.get("tool_responses"):
            return None
        for rule in self._rules:
            if await rule.ends(message):
                return OVER.format(who=rule.who)
        return ANSWERED.format(who=said.source) if self._answers else None
