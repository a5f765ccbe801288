"""Ids that programs give their conversations and runs."""

from __future__ import annotations

from typing import Final

from callboard.errors import SettingValueError

from .addresses import ASKS

MOST_OWN_ID: Final = 100  # characters; MOST_RUN_ID without a digest and what ends the name of a recording


def check_conversation(conversation: str) -> None:
    """Refuse the id of a conversation whose agents would share their keys with those of another one.

    An empty one is refused as well: it comes of a variable that nobody has set, and whatever had none would share it.

    Raises:
        SettingValueError: There can't be such a conversation (a ValueError).
    """
    if not conversation:
        raise SettingValueError(
            "conversation", repr(conversation), "a text that is not empty, such as a customer's id"
        )
    # guard: no conversation has the key of the agent that asks people for another one
    if conversation.endswith(ASKS):
        rule = f"a text that does not end with {ASKS!r}: so ends the key of who asks people in a conversation"
        raise SettingValueError("conversation", repr(conversation), rule)


def check_run_id(run_id: str) -> None:
    """Refuse an id that is empty, or leaves no room for what is added to it in the names of the run's streams.

    Raises:
        SettingValueError: It is empty or too long (a ValueError).
    """
    if not 0 < len(run_id) <= MOST_OWN_ID:
        raise SettingValueError("run_id", repr(run_id[:MOST_OWN_ID]), f"1 to {MOST_OWN_ID} characters")
