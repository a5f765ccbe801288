"""Questions of handlers as they should be: which are open, and which agents wait for an answer."""

from __future__ import annotations

from collections.abc import Iterable

OPEN, ANSWERED, WITHDRAWN = "open", "answered", "withdrawn"


class Questions:
    """What handlers asked.

    Attributes:
        status: by question, `<message>?<name>`.
        suspended: agents whose handler waits -> its message.
        waited: messages in hand whose handlers have waited.
    """

    def __init__(self) -> None:
        self.status: dict[str, str] = {}
        self.suspended: dict[str, str] = {}
        self.waited: set[str] = set()

    def copy(self) -> Questions:
        made = Questions()
        made.status, made.suspended, made.waited = dict(self.status), dict(self.suspended), set(self.waited)
        return made

    def of(self, message: str) -> list[str]:
        """The questions of a message that it would ask again."""
        return [one for one in self.status if one.partition("?")[0] == message]

    def open(self) -> list[str]:
        return [one for one, status in self.status.items() if status == OPEN]

    def ask(self, question: str, is_known: bool) -> None:
        """Asked again it is what it was."""
        if not is_known:
            self.status[question] = OPEN

    def wait(self, key: str, message: str, is_cancelled: bool) -> None:
        """The handler ends; it waits unless something has come already."""
        self.waited.add(message)
        if not is_cancelled and all(self.status[one] == OPEN for one in self.of(message)):
            self.suspended[key] = message

    def answer(self, question: str) -> None:
        self.status[question] = ANSWERED
        self.wake(question.partition("?")[0])

    def wake(self, message: str) -> None:
        for key in [key for key, its in self.suspended.items() if its == message]:
            del self.suspended[key]

    def leave(self, message: str, names: Iterable[str]) -> list[str]:
        """The message has ended: what is open is withdrawn. Returns the names of those."""
        self.waited.discard(message)
        asked = [name for name in names if name.startswith("?")]
        left = [name for name in asked if self.status[message + name] == OPEN]
        for name in left:
            self.status[message + name] = WITHDRAWN
        return left
