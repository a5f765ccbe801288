"""A runtime that only remembers what was asked of it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from callboard import (
    Agent,
    AgentId,
    AgentInstantiationContext,
    AgentMetadata,
    AgentType,
    CancellationToken,
    MessageContext,
    TopicId,
)
from callboard.broker.errors import SubscriptionError
from callboard.broker.subscriptions import Subscription


class RecordingRuntime:
    """What registration and sending call of a runtime, without any delivery."""

    def __init__(self) -> None:
        self.factories: dict[str, Callable[[], Any]] = {}
        self.expected: dict[str, type | None] = {}
        self.instances: dict[AgentId, Agent] = {}
        self.subscriptions: list[Subscription] = []
        self.types: list[type] = []
        self.sent: list[tuple[Any, AgentId | str, dict[str, Any]]] = []
        self.published: list[tuple[Any, TopicId | str, dict[str, Any]]] = []
        self.told: list[tuple[Any, AgentId | str, dict[str, Any]]] = []
        self.reminded: list[tuple[Any, AgentId | str, dict[str, Any]]] = []
        self.written: list[tuple[str, Sequence[Any], dict[str, Any]]] = []
        self.states: dict[AgentId, Mapping[str, Any]] = {}

    async def send_message(self, message: Any, recipient: AgentId | str, **options: Any) -> Any:
        self.sent.append((message, recipient, options))
        return "answer"

    async def publish_message(self, message: Any, topic_id: TopicId | str, **options: Any) -> None:
        self.published.append((message, topic_id, options))

    async def tell(self, message: Any, recipient: AgentId | str, **options: Any) -> None:
        self.told.append((message, recipient, options))

    async def remind(self, message: Any, agent: AgentId | str, **options: Any) -> None:
        self.reminded.append((message, agent, options))

    async def write_run(self, run_id: str, events: Sequence[Any], **options: Any) -> int:
        self.written.append((run_id, events, options))
        return 0

    async def register_factory(
        self,
        type: str | AgentType,
        agent_factory: Callable[[], Any],
        *,
        expected_class: Any = None,
    ) -> AgentType:
        name = AgentType(str(type))
        if name.type in self.factories:
            raise ValueError(name.type)
        self.factories[name.type] = agent_factory
        self.expected[name.type] = expected_class
        return name

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        await agent_instance.bind_id_and_runtime(agent_id, self)
        self.instances[agent_id] = agent_instance
        return agent_id

    async def try_get_underlying_agent_instance(self, id: AgentId, type: Any = Agent) -> Any:
        return self.instances[id]

    async def get(self, id_or_type: Any, /, key: str = "default", *, lazy: bool = True) -> AgentId:
        return id_or_type if isinstance(id_or_type, AgentId) else AgentId(id_or_type, key)

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.states.update({AgentId.from_str(agent): saved for agent, saved in state.items()})

    async def agent_metadata(self, agent: AgentId) -> AgentMetadata:
        return AgentMetadata(type=agent.type, key=agent.key, description="described")

    async def agent_save_state(self, agent: AgentId) -> Mapping[str, Any]:
        return self.states[agent]

    async def agent_load_state(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        self.states[agent] = state

    async def add_subscription(self, subscription: Subscription) -> None:
        if subscription in self.subscriptions:
            raise SubscriptionError(repr(subscription))
        self.subscriptions.append(subscription)

    async def remove_subscription(self, id: str) -> None:
        for subscription in self.subscriptions:
            if subscription.id == id:
                self.subscriptions.remove(subscription)
                return
        raise SubscriptionError(id, "does not exist")

    def add_message_types(self, message_types: Iterable[type]) -> None:
        self.types.extend(message_types)

    async def make(self, agent_type: str, key: str = "default") -> Any:
        """An agent, made as a runtime makes it."""
        agent_id = AgentId(agent_type, key)
        with AgentInstantiationContext.populate_context((self, agent_id)):
            made = self.factories[agent_type]()
            return await made if isinstance(made, Awaitable) else made


def context(*, is_rpc: bool = False, topic: TopicId | None = None) -> MessageContext:
    """A context as a handler gets it."""
    return MessageContext(None, topic, is_rpc, CancellationToken(), "message-1")
