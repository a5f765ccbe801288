from .base import (
    AndTerminationCondition as AndTerminationCondition,
    ConditionError as ConditionError,
    ConditionStateError as ConditionStateError,
    OrTerminationCondition as OrTerminationCondition,
    TerminatedException as TerminatedException,
    TerminationCondition as TerminationCondition,
)
from .limits import (
    MaxMessageTermination as MaxMessageTermination,
    TimeoutTermination as TimeoutTermination,
    TokenUsageTermination as TokenUsageTermination,
)
from .triggers import (
    ExternalTermination as ExternalTermination,
    FunctionalTermination as FunctionalTermination,
    FunctionCallTermination as FunctionCallTermination,
    HandoffTermination as HandoffTermination,
    LatchedTermination as LatchedTermination,
    SourceMatchTermination as SourceMatchTermination,
    StopMessageTermination as StopMessageTermination,
    TextMentionTermination as TextMentionTermination,
    TextMessageTermination as TextMessageTermination,
)

__all__: list[str]
