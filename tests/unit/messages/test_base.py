"""What all chat messages have in common."""

from __future__ import annotations

import uuid

from callboard.messages import TextMessage


def test_each_has_an_id_that_is_a_uuid() -> None:
    ids = [TextMessage(content="so it is", source="ann").id for _ in range(300)]
    assert len(set(ids)) == len(ids)
    for text in ids:
        read = uuid.UUID(text)
        assert (str(read), read.version, read.variant) == (text, 4, uuid.RFC_4122)
    assert {text[19] for text in ids} == set("89ab")
