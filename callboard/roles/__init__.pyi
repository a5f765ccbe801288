from .action import Action as Action, ActionOutput as ActionOutput, UserRequirement as UserRequirement
from .contents import known_content as known_content
from .context import Context as Context, CostManager as CostManager
from .environment import Environment as Environment
from .errors import (
    DuplicateRoleError as DuplicateRoleError,
    EnvironmentStateError as EnvironmentStateError,
    HopLimitError as HopLimitError,
    MessageDataError as MessageDataError,
    NoEnvironmentError as NoEnvironmentError,
    NoMoneyException as NoMoneyException,
    ReactModeError as ReactModeError,
    RoleDeclarationError as RoleDeclarationError,
    RoleFailedError as RoleFailedError,
    RolesError as RolesError,
    UnknownContentError as UnknownContentError,
    UnknownRoleError as UnknownRoleError,
)
from .llm import LLM as LLM
from .memory import Memory as Memory
from .message import (
    AIMessage as AIMessage,
    Message as Message,
    Part as Part,
    SystemMessage as SystemMessage,
    UserMessage as UserMessage,
)
from .names import (
    MESSAGE_ROUTE_CAUSE_BY as MESSAGE_ROUTE_CAUSE_BY,
    MESSAGE_ROUTE_FROM as MESSAGE_ROUTE_FROM,
    MESSAGE_ROUTE_TO as MESSAGE_ROUTE_TO,
    MESSAGE_ROUTE_TO_ALL as MESSAGE_ROUTE_TO_ALL,
    MESSAGE_ROUTE_TO_NONE as MESSAGE_ROUTE_TO_NONE,
    MESSAGE_ROUTE_TO_SELF as MESSAGE_ROUTE_TO_SELF,
    any_to_str as any_to_str,
    any_to_str_set as any_to_str_set,
)
from .plan import Plan as Plan, Planner as Planner, Task as Task, TaskResult as TaskResult
from .role import Role as Role
from .role_context import RoleContext as RoleContext, RoleReactMode as RoleReactMode
from .team import Team as Team

__all__: list[str]
