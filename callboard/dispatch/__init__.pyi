from .agent import DynamicDispatcherAgent as DynamicDispatcherAgent
from .authorization import Authorized as Authorized
from .base import (
    AbstractDispatcher as AbstractDispatcher,
    AbstractDynamicDispatcher as AbstractDynamicDispatcher,
)
from .changes import HandoffChange as HandoffChange
from .dynamic import DynamicDispatcher as DynamicDispatcher
from .entries import EnabledFunc as EnabledFunc
from .errors import (
    DispatchError as DispatchError,
    DispatcherSettingError as DispatcherSettingError,
    DispatcherStateError as DispatcherStateError,
    DuplicateHandoffError as DuplicateHandoffError,
    HandoffDeclarationError as HandoffDeclarationError,
    HandoffLimitError as HandoffLimitError,
    NotAHandoffError as NotAHandoffError,
    TargetRefusedError as TargetRefusedError,
    UnknownHandoffError as UnknownHandoffError,
)
from .search_agent import WorkbenchSearchAgent as WorkbenchSearchAgent
from .static import Dispatcher as Dispatcher
from .typed import TypedHandoff as TypedHandoff

__all__: list[str]
