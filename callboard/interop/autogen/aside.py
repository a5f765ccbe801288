"""The way past a running turn: `pause` and `resume` of a team reach a member while it speaks.

A request waits in its agent's inbox until the handler that runs has ended. In AutoGen it enters at once, and the pause of
teams relies on that. So agents that take such requests have a second type in the same process, `<type>.aside`, whose handler
gives them to the agent that is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from callboard.broker import AgentId
from callboard.context import MessageContext
from callboard.protocol import AgentMetadata, AgentRuntime

from .hosted import HostedAgent
from .messages import Carried

ENTERING: Final = frozenset({"GroupChatPause", "GroupChatResume"})
SUFFIX: Final = ".aside"

FindBusy = Callable[[AgentId], HostedAgent | None]
Ask = Callable[[Carried, AgentId], Awaitable[Any]]


def takes_entering(agent_class: type[Any] | None) -> bool:
    """Whether agents of a class of AutoGen's handle requests that enter past a running turn."""
    handled: Callable[[], Any] | None = getattr(agent_class, "_handles_types", None)
    return handled is not None and any(cls.__name__ in ENTERING for cls, _ in handled())


def enters(message: object) -> bool:
    """Whether a request goes past a running turn."""
    return type(message).__name__ in ENTERING


def aside_of(agent_id: AgentId) -> AgentId:
    """The agent that takes such requests for another."""
    return AgentId(agent_id.type + SUFFIX, agent_id.key)


class Aside:
    """Takes requests for one agent while that is busy.

    Args:
        agent_id: its own id.
        find_busy: the agent of an id, when it runs a handler in this process.
        ask: sends a request the usual way.
    """

    lasting = False

    def __init__(self, agent_id: AgentId, find_busy: FindBusy, ask: Ask) -> None:
        self.id = agent_id
        self._for = AgentId(agent_id.type.removesuffix(SUFFIX), agent_id.key)
        self._find_busy = find_busy
        self._ask = ask

    @property
    def metadata(self) -> AgentMetadata:
        """Who it is."""
        return AgentMetadata(
            type=self.id.type, key=self.id.key, description=f"what enters {self._for} at once"
        )

    async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None:
        """Does nothing: it knows both."""

    async def on_message(self, message: Any, ctx: MessageContext) -> Any:
        """Has the agent handle a request beside what it handles now."""
        busy = self._find_busy(self._for)
        if busy is None:
            # It is idle, or busy in another process that runs its type too: then the request waits for its turn there.
            return await self._ask(message, self._for)
        return await busy.enter(message, ctx)

    async def save_state(self) -> Mapping[str, Any]:
        """It has none."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """It has none."""

    async def close(self) -> None:
        """Nothing is to be closed."""
