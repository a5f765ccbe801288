"""The agent types of one runtime: how agents are made, and those that are alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from broker import AgentId
from broker.mailbox import Mailbox

from .declaration import AgentSettings
from .runtime_errors import FactoryResultError, UndeclaredStateError, UnknownInstanceError
from .runtime_protocol import Agent
from .state import state_model

Factory = Callable[[], Any | Awaitable[Any]]
AgentClass = type[Any]


@dataclass(slots=True)
class LiveAgent:
    """An agent in this process.

    Attributes:
        agent: the object.
        agent_id: its id.
        saved: its persistent state as last committed; None: the default.
        version: how many commits that state has seen.
        mailbox: the mailbox of the last message; as long as it is the same, nobody else handled this agent.
        used: when it was last used, loop time in seconds.
    """

    agent: Agent
    agent_id: AgentId
    saved: bytes | None = None
    version: int = 0
    mailbox: Mailbox | None = None
    used: float = 0.0


@dataclass(slots=True)
class AgentTypeEntry:
    """One agent type. It has a factory, or instances that exist already.

    Attributes:
        type: the agent type.
        factory: makes one agent; None for instances.
        expected_class: what it has to make; for instances their class.
        settings: limits of this type.
        live: agents by key.
        making: agents being made, by key.
        persistent: its agents keep their state in Redis.
        is_plain: nothing has to be done around its handlers.
        reentrant: they can be asked while they wait, as its settings or its class say.
    """

    type: str
    factory: Factory | None
    expected_class: AgentClass | None
    settings: AgentSettings
    live: dict[str, LiveAgent] = field(default_factory=dict)
    making: dict[str, asyncio.Future[LiveAgent]] = field(default_factory=dict)
    persistent: bool = field(init=False)
    reentrant: bool = field(init=False)
    is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        self.persistent = self.expected_class is not None and state_model(self.expected_class) is not None
        self.reentrant = self.settings.reentrant or getattr(self.expected_class, "reentrant", False) is True
        self.is_plain = self.settings.max_runtime is None and not self.reentrant

    def construct(self, agent_id: AgentId) -> Any:
        """Calls the factory; may return an awaitable.

        Raises:
            UnknownInstanceError: the type has instances only, and this key is not one of them.
        """
        if self.factory is None:
            raise UnknownInstanceError(str(agent_id))
        return self.factory()

    def check(self, agent: object) -> None:
        """Checks what the factory made.

        Raises:
            FactoryResultError: it is not an instance of the expected class.
            UndeclaredStateError: it has a State, and the expected class has none.
        """
        expected = self.expected_class or Agent
        if not isinstance(agent, expected):
            raise FactoryResultError(self.type, expected.__name__, type(agent).__name__)
        if not self.persistent and state_model(type(agent)) is not None:
            raise UndeclaredStateError(self.type, type(agent).__name__)
