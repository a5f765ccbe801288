from .codec import MessageRegistry as MessageRegistry, message as message
from .envelope import Envelope as Envelope
from .errors import BrokerError as BrokerError
from .ids import AgentId as AgentId, AgentType as AgentType, TopicId as TopicId
from .outcome import (
    Commit as Commit,
    DeadLetter as DeadLetter,
    ErrorInfo as ErrorInfo,
    Outcome as Outcome,
    Release as Release,
    Retry as Retry,
)
from .retry import RetryPolicy as RetryPolicy
from .settings import BrokerSettings as BrokerSettings
from .subscriptions import (
    Subscription as Subscription,
    TypePrefixSubscription as TypePrefixSubscription,
    TypeSubscription as TypeSubscription,
)

__all__: list[str]
