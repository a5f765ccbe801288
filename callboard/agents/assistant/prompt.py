"""Asks the model of an assistant."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from callboard.agents.errors import NoTextError
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.memory.llm_messages import LLMMessage
from callboard.messages.events import ModelClientStreamingChunkEvent
from callboard.models.types import CreateResult

from .images import without_images
from .setup import Setup


class Prompt:
    """One request to the model.

    Args:
        setup: The assistant.
        messages: The conversation.
        message_id: Of what the pieces of the answer become.
        shows_pieces: Whether they are shown.
        token: Ends it.
        options: More for the client.
    """

    def __init__(
        self,
        setup: Setup,
        messages: Sequence[LLMMessage],
        message_id: str,
        shows_pieces: bool,
        token: CancellationToken,
        **options: Any,
    ) -> None:
        self._setup = setup
        whole = [*setup.system, *messages]
        self._messages = whole if setup.model_info["vision"] else without_images(whole)
        self._message_id = message_id
        self._shows_pieces = shows_pieces
        self._options = {**options, "json_output": setup.output_type, "cancellation_token": token}
        self._answer: CreateResult | None = None

    async def ask(self) -> AsyncGenerator[Said, None]:
        """Ask; yields the pieces of the answer as they come."""
        client = self._setup.client
        if not self._shows_pieces:
            self._answer = await client.create(self._messages, **self._options)
            return
        async with aclosing(client.create_stream(self._messages, **self._options)) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    self._answer = item
                else:
                    yield ModelClientStreamingChunkEvent(
                        content=item, source=self._setup.name, full_message_id=self._message_id
                    )

    @property
    def answer(self) -> CreateResult:
        """What the model has answered.

        Raises:
            NoTextError: Its stream had no end.
        """
        if self._answer is None:
            raise NoTextError(self._setup.name)
        return self._answer
