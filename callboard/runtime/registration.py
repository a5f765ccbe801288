"""The agent types of one runtime: how agents are made, and those that are alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from callboard.agent import BaseAgent
from callboard.broker import AgentId
from callboard.broker.delivery import Holder
from callboard.declaration import AgentSettings
from callboard.protocol import Agent
from callboard.state import state_model

from .errors import AgentInstanceError, UnknownInstanceError

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
        mailbox: of a persistent agent the mailbox of its last message; as long as it is the same, no other worker handled
            this agent. Others don't keep theirs: it is larger than they are.
        used: when it was last used, loop time in seconds.
    """

    agent: Agent
    agent_id: AgentId
    saved: bytes | None = None
    version: int = 0
    mailbox: Holder | None = None
    used: float = 0.0


@dataclass(slots=True)
class LocalAgentType:
    """An agent type in this process: it has a factory, or instances that exist already.

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
        lasting: they are kept until the runtime closes, as their class says: what they know is in no state.
        usual_class: that of an agent that was made and checked, if nothing but its class was to be checked; None: of none.
    """

    type: str
    factory: Factory | None
    expected_class: AgentClass | None
    settings: AgentSettings
    live: dict[str, LiveAgent] = field(default_factory=dict)
    making: dict[str, asyncio.Future[LiveAgent]] = field(default_factory=dict)
    persistent: bool = field(init=False)
    reentrant: bool = field(init=False)
    lasting: bool = field(init=False)
    is_plain: bool = field(init=False)
    usual_class: AgentClass | None = None

    def __post_init__(self) -> None:
        self.persistent = self.expected_class is not None and state_model(self.expected_class) is not None
        self.reentrant = self.settings.reentrant or getattr(self.expected_class, "reentrant", False) is True
        self.lasting = getattr(self.expected_class, "lasting", False) is True
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
            AgentInstanceError: it is not an instance of the expected class, or it has a State and that class has none.
        """
        expected = self.expected_class or Agent
        if not isinstance(agent, expected):
            raise AgentInstanceError(
                f"the factory of {self.type!r} made a {type(agent).__name__}; "
                f"it was registered for {expected.__name__}"
            )
        if not self.persistent and state_model(type(agent)) is not None:
            given = type(agent).__name__
            raise AgentInstanceError(
                f"the factory of {self.type!r} made a {given}, whose State would not be stored: "
                f"register it with expected_class={given}"
            )
        bind = getattr(type(agent), "bind_id_and_runtime", None)
        self.usual_class = type(agent) if bind is BaseAgent.bind_id_and_runtime else None
