"""Events of the runtime, for listeners of this process; silent, and next to free, until a listener is attached.

```python
detach = attach(lambda event: print(event))
...
detach()
```

| event | when |
|---|---|
| Published | a message is in a stream |
| Started | a handler is about to run |
| Handled | its outcome is committed or about to be |
| Retried | it failed and will be tried again |
| DeadLettered | it failed for good |
| Released | it was given back unfinished and counts no attempt |
| WaitsForAnswer | it has asked something, and was given back until there is an answer; it counts no attempt |
| Dropped | it ended before its handler ran: it had expired, or was cancelled |
| Fenced | this worker lost its lease; nothing of what it was doing counts |
| Connected | a connection to the server stands, the first or a new one |
| Disconnected | a connection broke or could not be made |
| Beat | the server has answered a heartbeat: the worker's lease goes on |
| ModelAsked | a model was asked for an agent, and has answered or failed; recorded answers that are given again are none |
| ToolCalled | a tool ran for a model, and has returned or failed; recorded results that are given again are none |

Events hold names, ids and times, never payloads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, ParamSpec, TypeAlias

P = ParamSpec("P")
logger = logging.getLogger("callboard.broker.telemetry")


class Published(NamedTuple):
    """A message is in a stream. `stream` is its name without the namespace, such as topic:visits."""

    message_id: str
    message_type: str
    stream: str
    key: str


class Started(NamedTuple):
    """A handler is about to run. `waited` is in seconds since publishing; `attempt` counts from 1."""

    agent: str
    message_id: str
    message_type: str
    attempt: int
    waited: float


class Handled(NamedTuple):
    """A handler ended well, after `seconds`."""

    agent: str
    message_id: str
    message_type: str
    seconds: float


class Retried(NamedTuple):
    """A handler failed and will be tried again in `delay` seconds. `error` is the name of a class."""

    agent: str
    message_id: str
    message_type: str
    attempt: int
    delay: float
    error: str


class DeadLettered(NamedTuple):
    """A message failed for good. `error` is the name of a class, or ""."""

    agent: str
    message_id: str
    message_type: str
    attempt: int
    reason: str
    error: str


class Released(NamedTuple):
    """A message was given back unfinished and counts no attempt."""

    agent: str
    message_id: str
    reason: str


class WaitsForAnswer(NamedTuple):
    """A handler has asked and ended: so many `questions` of it are open. It runs again when one of them is not."""

    agent: str
    message_id: str
    questions: int


class Dropped(NamedTuple):
    """A message ended before its handler ran; `reason` is "expired" or "cancelled"."""

    agent: str
    message_id: str
    message_type: str
    reason: str


class Fenced(NamedTuple):
    """A worker lost its lease while it held `held` messages."""

    worker: str
    held: int


class Connected(NamedTuple):
    """A connection stands. `url` has no password in it."""

    url: str
    is_again: bool


class Disconnected(NamedTuple):
    """A connection broke or could not be made."""

    url: str
    reason: str


class Beat(NamedTuple):
    """The server has answered a worker's heartbeat; `running` and `held` count its messages. Comes in another thread."""

    worker: str
    held: int
    running: int


class ModelAsked(NamedTuple):
    """A model was asked; `status` is "ok", "outage" or "error".

    Of an answer it has the tokens, as the model's server counted them: `cached` are among the `prompt`'s, `reasoning` among
    the `completion`'s. `agent` is its type, or "" outside of handlers.
    """

    agent: str
    model: str
    status: str
    seconds: float
    prompt: int
    completion: int
    cached: int
    reasoning: int


class ToolCalled(NamedTuple):
    """A tool ran; `status` is "ok" or "error", as the model reads it."""

    tool: str
    status: str
    seconds: float


Event: TypeAlias = (
    Published
    | Started
    | Handled
    | Retried
    | DeadLettered
    | Released
    | WaitsForAnswer
    | Dropped
    | Fenced
    | Connected
    | Disconnected
    | Beat
    | ModelAsked
    | ToolCalled
)
Listener: TypeAlias = Callable[[Event], None]

LISTENERS: Final[list[Listener]] = []
"""All who listen in this process. Ask whether it is empty before you gather data for an event that cost something."""


def attach(listener: Listener) -> Callable[[], None]:
    """Has a function called with every event of this process, in the thread and at the moment it happens.

    It has to be quick and may not block. When it raises, that is logged and changes nothing for messages.

    Returns:
        A function that ends it; calling it again does nothing.
    """
    ticket: list[Listener] = [listener]
    LISTENERS.append(listener)

    def detach() -> None:
        if ticket:
            LISTENERS.remove(ticket.pop())

    return detach


def emit(event: Callable[P, Event], *args: P.args, **kwargs: P.kwargs) -> None:
    """Tells listeners of an event: `emit(Fenced, worker, 3)`. Without listeners the event is not even made."""
    if not LISTENERS:
        return
    happened = event(*args, **kwargs)
    for listener in tuple(LISTENERS):  # another thread, or the listener itself, may detach one meanwhile
        try:
            listener(happened)
        except Exception:
            logger.exception("a telemetry listener failed on %s", type(happened).__name__)
