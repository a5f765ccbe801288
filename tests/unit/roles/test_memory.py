from __future__ import annotations

from callboard.core.state import Log
from callboard.roles import Action, Memory, Message


class Write(Action):
    pass


def test_each_message_is_there_once_and_in_order() -> None:
    memory = Memory()
    first, second = Message("one", cause_by=Write), Message("two", role="assistant")
    memory.add_batch([first, second, first])
    assert memory.get() == [first, second]
    assert memory.get(1) == [second]
    assert memory.get_by_action(Write) == memory.get_by_actions([Write, "other"]) == [first]
    assert memory.get_by_role("assistant") == memory.get_by_content("wo") == [second]
    assert memory.find_news([first, Message("three")])[0].content == "three"
    assert first in memory
    assert "one" not in memory
    memory.clear()
    assert (memory.count(), len(memory)) == (0, 0)


def test_what_a_failed_handler_took_back_may_come_again() -> None:
    log: Log[Message] = Log()
    memory, message = Memory(log), Message("one")
    memory.add(message)
    log.roll_back()
    assert message not in memory
    memory.add(message)
    assert memory.storage == [message]
