"""What tests of the OpenAI-compatible door share: a worker, doors, and the client of `openai`."""

from __future__ import annotations

import os

import openai
from openai import OpenAI

from .eventually import eventually
from .processes import Process, python
from .worker_fleet import SHORT_LEASE

TARGET = "tests.helpers.talking_team:app"


class Place:
    """A namespace with a worker.

    Args:
        url: Of its server.
        target: The app.
    """

    def __init__(self, url: str, target: str = TARGET) -> None:
        self._target = target
        self.options = ["--url", url, "--namespace", f"openai-{os.urandom(4).hex()}"]
        self.worker = self.another()

    def another(self) -> Process:
        return Process(python("-m", "callboard", "worker", self._target, *self.options), SHORT_LEASE)


def client(address: str, token: str = "ada") -> OpenAI:
    return OpenAI(base_url=f"{address}/v1", api_key=token, max_retries=0, timeout=40)


async def has_worker(http: OpenAI) -> None:
    """A run is refused while no worker runs the team."""

    def is_there() -> bool:
        try:
            return bool(
                http.chat.completions.create(model="echo", messages=[{"role": "user", "content": "x"}])
            )
        except openai.InternalServerError as error:
            if "no worker" not in str(error):
                raise
            return False

    await eventually(is_there, 30)
