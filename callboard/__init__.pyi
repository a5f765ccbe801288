from .app import App as App
from .broker.codec import message as message
from .broker.ids import AgentId as AgentId, AgentType as AgentType, TopicId as TopicId
from .broker.settings import BrokerSettings as BrokerSettings
from .broker.subscriptions import (
    Subscription as Subscription,
    TypePrefixSubscription as TypePrefixSubscription,
    TypeSubscription as TypeSubscription,
)
from .core.agent import AgentProxy as AgentProxy, BaseAgent as BaseAgent, handles as handles
from .core.cancellation import CancellationToken as CancellationToken
from .core.closure import ClosureAgent as ClosureAgent, ClosureContext as ClosureContext
from .core.context import MessageContext as MessageContext, MessageHandlerContext as MessageHandlerContext
from .core.declaration import AgentDeclaration as AgentDeclaration, AgentSettings as AgentSettings
from .core.handlers import (
    RoutedAgent as RoutedAgent,
    event as event,
    message_handler as message_handler,
    rpc as rpc,
)
from .core.intervention import (
    DefaultInterventionHandler as DefaultInterventionHandler,
    DropMessage as DropMessage,
    InterventionHandler as InterventionHandler,
)
from .core.people import (
    InputRequest as InputRequest,
    OnInput as OnInput,
    Question as Question,
    asking_by as asking_by,
)
from .core.protocol import (
    Agent as Agent,
    AgentMetadata as AgentMetadata,
    AgentRuntime as AgentRuntime,
    Request as Request,
)
from .core.resources import resource as resource
from .core.state import Log as Log
from .core.subscriptions import (
    AgentInstantiationContext as AgentInstantiationContext,
    DefaultSubscription as DefaultSubscription,
    DefaultTopicId as DefaultTopicId,
    SubscriptionInstantiationContext as SubscriptionInstantiationContext,
    default_subscription as default_subscription,
    type_subscription as type_subscription,
)
from .core.telemetry import (
    trace_create_agent_span as trace_create_agent_span,
    trace_invoke_agent_span as trace_invoke_agent_span,
    trace_tool_span as trace_tool_span,
)
from .errors import (
    CannotAskError as CannotAskError,
    DeclarationError as DeclarationError,
    InputAnsweredError as InputAnsweredError,
    InputError as InputError,
    InputExpiredError as InputExpiredError,
    InputRequestUnknownError as InputRequestUnknownError,
    InputValueError as InputValueError,
    InputWithdrawnError as InputWithdrawnError,
    MessageDroppedException as MessageDroppedException,
    NotAccessibleError as NotAccessibleError,
    NotAllowedToAnswerError as NotAllowedToAnswerError,
    UndeliverableException as UndeliverableException,
    UnheardError as UnheardError,
)
from .foundation import ActorError as ActorError, CantHandleException as CantHandleException
from .foundation.cache_store import CacheStore as CacheStore, InMemoryStore as InMemoryStore
from .foundation.component import (
    Component as Component,
    ComponentBase as ComponentBase,
    ComponentFromConfig as ComponentFromConfig,
    ComponentLoader as ComponentLoader,
    ComponentModel as ComponentModel,
    ComponentSchemaType as ComponentSchemaType,
    ComponentToConfig as ComponentToConfig,
    ComponentType as ComponentType,
    is_component_class as is_component_class,
    is_component_instance as is_component_instance,
    register_component as register_component,
)
from .logging import (
    EVENT_LOGGER_NAME as EVENT_LOGGER_NAME,
    ROOT_LOGGER_NAME as ROOT_LOGGER_NAME,
    TRACE_LOGGER_NAME as TRACE_LOGGER_NAME,
)
from .memory.llm_messages import FunctionCall as FunctionCall, Image as Image
from .runtime.runtime import RedisAgentRuntime as RedisAgentRuntime

__all__: list[str]

__version__: str
