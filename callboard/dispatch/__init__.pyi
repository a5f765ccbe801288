from .agent import DynamicDispatcherAgent as DynamicDispatcherAgent
from .dispatcher import (
    AbstractDispatcher as AbstractDispatcher,
    AbstractDynamicDispatcher as AbstractDynamicDispatcher,
    Dispatcher as Dispatcher,
    DispatchError as DispatchError,
    EnabledFunc as EnabledFunc,
    HandoffDeclarationError as HandoffDeclarationError,
    TargetRefusedError as TargetRefusedError,
    TypedHandoff as TypedHandoff,
    UnknownHandoffError as UnknownHandoffError,
)
from .dynamic import (
    Authorized as Authorized,
    DynamicDispatcher as DynamicDispatcher,
    HandoffChange as HandoffChange,
)
from .search_agent import WorkbenchSearchAgent as WorkbenchSearchAgent

__all__: list[str]
