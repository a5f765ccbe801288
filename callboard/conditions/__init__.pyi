from .base import (
    AndTerminationCondition as AndTerminationCondition,
    OrTerminationCondition as OrTerminationCondition,
    TerminationCondition as TerminationCondition,
)
from .errors import (
    ConditionError as ConditionError,
    ConditionSettingError as ConditionSettingError,
    ConditionStateError as ConditionStateError,
    TerminatedException as TerminatedException,
)
from .external import ExternalTermination as ExternalTermination
from .function_call import FunctionCallTermination as FunctionCallTermination
from .functional import FunctionalTermination as FunctionalTermination
from .handoff import HandoffTermination as HandoffTermination
from .latched import LatchedTermination as LatchedTermination
from .max_message import MaxMessageTermination as MaxMessageTermination
from .source_match import SourceMatchTermination as SourceMatchTermination
from .stop_message import StopMessageTermination as StopMessageTermination
from .text_mention import TextMentionTermination as TextMentionTermination
from .text_message import TextMessageTermination as TextMessageTermination
from .timeout import TimeoutTermination as TimeoutTermination
from .token_usage import TokenUsageTermination as TokenUsageTermination

__all__: list[str]
