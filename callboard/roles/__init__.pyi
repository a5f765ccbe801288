from .action import (
    LLM as LLM,
    Action as Action,
    ActionOutput as ActionOutput,
    Context as Context,
    CostManager as CostManager,
    UserRequirement as UserRequirement,
)
from .environment import Environment as Environment, Team as Team
from .errors import (
    EnvironmentStateError as EnvironmentStateError,
    HopLimitError as HopLimitError,
    MessageDataError as MessageDataError,
    NoMoneyException as NoMoneyException,
    RoleDeclarationError as RoleDeclarationError,
    RoleFailedError as RoleFailedError,
    RolesError as RolesError,
    UnknownRoleError as UnknownRoleError,
)
from .message import (
    MESSAGE_ROUTE_CAUSE_BY as MESSAGE_ROUTE_CAUSE_BY,
    MESSAGE_ROUTE_FROM as MESSAGE_ROUTE_FROM,
    MESSAGE_ROUTE_TO as MESSAGE_ROUTE_TO,
    MESSAGE_ROUTE_TO_ALL as MESSAGE_ROUTE_TO_ALL,
    MESSAGE_ROUTE_TO_NONE as MESSAGE_ROUTE_TO_NONE,
    MESSAGE_ROUTE_TO_SELF as MESSAGE_ROUTE_TO_SELF,
    AIMessage as AIMessage,
    Memory as Memory,
    Message as Message,
    Part as Part,
    SystemMessage as SystemMessage,
    UserMessage as UserMessage,
    any_to_str as any_to_str,
    any_to_str_set as any_to_str_set,
    known_content as known_content,
)
from .role import (
    Plan as Plan,
    Planner as Planner,
    Role as Role,
    RoleContext as RoleContext,
    RoleReactMode as RoleReactMode,
    Task as Task,
    TaskResult as TaskResult,
)

__all__: list[str]
