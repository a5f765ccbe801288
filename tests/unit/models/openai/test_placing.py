from __future__ import annotations

from typing import Any

from callboard.models.openai.chat_request import placed


def told(role: str, content: Any, **more: str) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_later_system_messages_join_the_user_before_them_or_behind_them() -> None:
    wire = [
        told("user", "Hello", name="ada"),
        told("system", "memory 1"),
        told("assistant", "Hi"),
        told("system", "memory 2"),
        told("user", "And?", name="ada"),
        told("assistant", None, tool_calls="..."),
        told("tool", "3"),
        told("system", "memory 3"),
        told("system", "memory 4"),
    ]

    assert placed(wire, several=False) == [
        told("user", "Hello\n\nmemory 1", name="ada"),
        told("assistant", "Hi"),
        told("user", "memory 2\n\nAnd?", name="ada"),
        told("assistant", None, tool_calls="..."),
        told("tool", "3"),
        told("user", "memory 3\n\nmemory 4"),
    ]


def test_two_users_stay_two() -> None:
    wire = [told("user", "one", name="ada"), told("user", "two", name="bob")]
    assert placed(wire, several=False) == wire


def test_a_text_joins_a_picture() -> None:
    picture = [{"type": "image_url", "image_url": {"url": "..."}}]
    (message,) = placed([told("user", picture), told("system", "memory")], several=False)
    assert message["content"] == [*picture, {"type": "text", "text": "memory"}]


def test_without_a_system_message_nothing_changes() -> None:
    assert placed([], several=False) == []
    assert placed([], several=False, instructions="tools", closing="now") == [
        told("system", "tools"),
        told("user", "now"),
    ]
