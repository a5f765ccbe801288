"""Lets a person be asked only when everything that was said before is on the console."""

from __future__ import annotations

import asyncio

from callboard.agents.calling import call, takes_token
from callboard.agents.input_request import InputRequestContext
from callboard.agents.user_proxy import AsyncInputFunc, InputFuncType
from callboard.cancellation import CancellationToken


class UserInputManager:
    """Holds a question back until the Console has come to it.

    ```python
    manager = UserInputManager(input)
    human = UserProxyAgent("human", input_func=manager.get_wrapped_callback())
    ...
    await Console(team.run_stream(task="..."), user_input_manager=manager)
    ```

    Agent and Console have to be in one process. AutoGen's waits for ever when the Console comes to a question before the
    agent asks it.

    Args:
        callback: Asks the person; see UserProxyAgent.
    """

    def __init__(self, callback: InputFuncType) -> None:
        self.callback = callback
        self._shown: dict[str, asyncio.Event] = {}

    def get_wrapped_callback(self) -> AsyncInputFunc:
        """The `input_func` for a UserProxyAgent."""

        async def ask(prompt: str, cancellation_token: CancellationToken | None) -> str:
            request_id = InputRequestContext.request_id()
            try:
                await self._event(request_id).wait()
            finally:
                self._shown.pop(request_id, None)
            args = (prompt, cancellation_token) if takes_token(self.callback) else (prompt,)
            return await call(self.callback, *args, token=cancellation_token)

        return ask

    def notify_event_received(self, request_id: str) -> None:
        """The Console has come to a question.

        Args:
            request_id: Of its UserInputRequestedEvent.
        """
        self._event(request_id).set()

    def _event(self, request_id: str) -> asyncio.Event:
        return self._shown.setdefault(request_id, asyncio.Event())
