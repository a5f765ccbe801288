from .agent_tool import AgentTool as AgentTool
from .base import BaseChatAgent as BaseChatAgent
from .chat_agent import ChatAgent as ChatAgent, Response as Response
from .code_executor.agent import CodeExecutorAgent as CodeExecutorAgent
from .code_executor.approval import (
    ApprovalFuncType as ApprovalFuncType,
    ApprovalRequest as ApprovalRequest,
    ApprovalResponse as ApprovalResponse,
)
from .errors import AgentError as AgentError, AgentNameError as AgentNameError, TaskError as TaskError
from .handoff import Handoff as Handoff
from .message_filter import (
    MessageFilterAgent as MessageFilterAgent,
    MessageFilterConfig as MessageFilterConfig,
    PerSourceFilter as PerSourceFilter,
)
from .runner_tool import TaskRunnerTool as TaskRunnerTool
from .society_of_mind import SocietyOfMindAgent as SocietyOfMindAgent
from .task import TaskResult as TaskResult, TaskRunner as TaskRunner
from .team import Team as Team
from .team_tool import TeamTool as TeamTool
from .user_proxy import UserProxyAgent as UserProxyAgent

__all__: list[str]
