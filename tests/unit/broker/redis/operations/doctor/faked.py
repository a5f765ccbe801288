"""A server that says what a test wants it to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from callboard.broker import BrokerSettings
from callboard.broker.errors import CommandError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations.doctor import Subject


class FakeSubject(Subject):
    """Answers by a table: INFO fields, settings of the server, and commands by their words."""

    def __init__(
        self,
        info: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        answers: Mapping[str, Any] | None = None,
        **broker: Any,
    ) -> None:
        super().__init__(RedisTransport("redis://127.0.0.1:1", BrokerSettings(namespace="shop", **broker)))
        self._given_info = dict(info or {})
        self._given_settings = dict(settings or {})
        self._answers = dict(answers or {})
        self.asked: list[str] = []

    async def info(self) -> Mapping[str, str]:
        return self._given_info

    async def setting(self, name: str) -> str | None:
        return self._given_settings.get(name)

    async def command(self, *arguments: Any) -> Any:
        words = " ".join(str(word) for word in arguments)
        self.asked.append(words)
        for beginning, answer in self._answers.items():
            if words.startswith(beginning):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        raise CommandError(f"ERR nobody told the test what {words} answers")


def subject(**given: Any) -> Subject:
    """One of these, as the checks want it."""
    return cast("Subject", FakeSubject(**given))
