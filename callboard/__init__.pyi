from .agent import BaseAgent as BaseAgent, handles as handles
from .app import App as App
from .asking import OnInput as OnInput, Question as Question, asking_by as asking_by
from .broker.encoding.registry import message as message
from .broker.ids import AgentId as AgentId, AgentType as AgentType, TopicId as TopicId
from .broker.settings import BrokerSettings as BrokerSettings
from .broker.subscriptions import (
    Subscription as Subscription,
    TypePrefixSubscription as TypePrefixSubscription,
    TypeSubscription as TypeSubscription,
)
from .cancellation import CancellationToken as CancellationToken
from .closure import ClosureAgent as ClosureAgent, ClosureContext as ClosureContext
from .context import MessageContext as MessageContext, MessageHandlerContext as MessageHandlerContext
from .declaration import AgentDeclaration as AgentDeclaration, AgentSettings as AgentSettings
from .errors import (
    ActorError as ActorError,
    CannotAskError as CannotAskError,
    CantHandleException as CantHandleException,
    InputAnsweredError as InputAnsweredError,
    InputDamagedError as InputDamagedError,
    InputError as InputError,
    InputExpiredError as InputExpiredError,
    InputRequestUnknownError as InputRequestUnknownError,
    InputValueError as InputValueError,
    InputWithdrawnError as InputWithdrawnError,
    MessageDroppedException as MessageDroppedException,
    NotAccessibleError as NotAccessibleError,
    NotAllowedToAnswerError as NotAllowedToAnswerError,
    QuestionError as QuestionError,
    UndeliverableException as UndeliverableException,
    UnheardError as UnheardError,
)
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
from .handlers import event as event, message_handler as message_handler, rpc as rpc
from .input_request import InputRequest as InputRequest
from .instantiation import (
    AgentInstantiationContext as AgentInstantiationContext,
    SubscriptionInstantiationContext as SubscriptionInstantiationContext,
)
from .intervention import (
    DefaultInterventionHandler as DefaultInterventionHandler,
    DropMessage as DropMessage,
    InterventionHandler as InterventionHandler,
)
from .log import Log as Log
from .logging import (
    EVENT_LOGGER_NAME as EVENT_LOGGER_NAME,
    ROOT_LOGGER_NAME as ROOT_LOGGER_NAME,
    TRACE_LOGGER_NAME as TRACE_LOGGER_NAME,
)
from .memory.image import Image as Image
from .memory.llm_messages import FunctionCall as FunctionCall
from .protocol import Agent as Agent, AgentMetadata as AgentMetadata, AgentRuntime as AgentRuntime
from .proxy import AgentProxy as AgentProxy
from .requests import Request as Request
from .routed import RoutedAgent as RoutedAgent
from .runtime.runtime import RedisAgentRuntime as RedisAgentRuntime
from .subscriptions import (
    DefaultSubscription as DefaultSubscription,
    DefaultTopicId as DefaultTopicId,
    default_subscription as default_subscription,
    type_subscription as type_subscription,
)
from .telemetry import (
    trace_create_agent_span as trace_create_agent_span,
    trace_invoke_agent_span as trace_invoke_agent_span,
    trace_tool_span as trace_tool_span,
)

__all__: list[str]
