"""The agent types of an environment's roles, in an App or in a runtime of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from callboard.agent import BaseAgent
from callboard.broker import BrokerSettings
from callboard.broker.subscriptions import Subscription, TypeSubscription
from callboard.declaration import AgentClass, AgentSettings
from callboard.runtime.runtime import RedisAgentRuntime

from .actor import ActorSurroundings, RoleActor
from .message import Message
from .names import topic_of
from .role import Role


class Declaring(Protocol):
    """An App, as far as an environment needs it."""

    def register(
        self,
        type: str,
        factory: Callable[[], BaseAgent],
        *,
        expected_class: AgentClass,
        subscriptions: Iterable[str | Subscription] = (),
        processes: int = 1,
        settings: AgentSettings | None = None,
    ) -> object:
        """Declare an agent type."""
        ...


def topics_of(role: Role) -> list[str]:
    """The topics that a role subscribes to."""
    post = role.post
    return sorted(topic_of(cause, joined=cause in post.joined) for cause in post.watch)


def declare_roles(
    app: Declaring,
    surroundings: ActorSurroundings,
    roles: Iterable[Role],
    processes: Mapping[str, int],
    settings: AgentSettings,
) -> None:
    """Declare the agent types of roles in an App."""
    for role in roles:
        app.register(
            role.agent_type,
            partial(RoleActor, surroundings, role),
            expected_class=RoleActor,
            subscriptions=topics_of(role),
            processes=processes.get(role.agent_type, 1),
            settings=settings,
        )


async def register_role(runtime: RedisAgentRuntime, surroundings: ActorSurroundings, role: Role) -> None:
    """Register the agent type of a role with a runtime."""
    runtime.add_message_types([Message])
    name = role.agent_type
    await runtime.register_factory(name, partial(RoleActor, surroundings, role), expected_class=RoleActor)
    for topic in topics_of(role):
        await runtime.add_subscription(TypeSubscription(topic, name))


class OwnRuntime:
    """A runtime that an environment starts when it is first needed, and which ends with it, or with the event loop.

    Args:
        url: The server; None: CALLBOARD_URL, else REDIS_URL, else the embedded server.
        namespace: None: CALLBOARD_NAMESPACE, else one that is thrown away.
        settings: Everything else; None: from the environment variables.
    """

    def __init__(self, url: str | None, namespace: str | None, settings: BrokerSettings | None) -> None:
        self.runtime = RedisAgentRuntime(url, namespace=namespace, settings=settings)
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and begin to work."""
        try:
            await self.runtime.open()
            self.runtime.start()
            await self.runtime.ready()
        except BaseException:
            await self.runtime.close()
            raise
        self._keeping = asyncio.create_task(self._keep(), name="callboard-environment")

    @property
    def is_open(self) -> bool:
        """Whether it works; not any more when its event loop has ended."""
        return self._keeping is None or not self._keeping.done()

    async def _keep(self) -> None:
        # Who writes `asyncio.run(main())` and closes nothing leaves nothing behind all the same: at its end the loop
        # cancels this task and waits for it.
        try:
            await asyncio.Event().wait()
        finally:
            await self.runtime.close()

    async def close(self) -> None:
        """Finish what runs, and disconnect."""
        if self._keeping is None:
            await self.runtime.close()
            return
        self._keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._keeping
