from collections.abc import Iterator

import pytest

from callboard.groupchat import IOStream
from tests.helpers.group_chats import Scripted


@pytest.fixture
def stream() -> Iterator[Scripted]:
    """What group chats show; nobody answers."""
    with IOStream.set_default(scripted := Scripted()):
        yield scripted


@pytest.fixture(autouse=True)
def _quiet(stream: Scripted) -> None:
    """Nothing is printed."""
