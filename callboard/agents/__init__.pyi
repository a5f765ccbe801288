from .agent_tool import AgentTool as AgentTool
from .assistant.agent import AssistantAgent as AssistantAgent
from .base import BaseChatAgent as BaseChatAgent
from .chat_agent import ChatAgent as ChatAgent, Response as Response
from .code_executor.agent import CodeExecutorAgent as CodeExecutorAgent
from .code_executor.approval import (
    ApprovalFuncType as ApprovalFuncType,
    ApprovalRequest as ApprovalRequest,
    ApprovalResponse as ApprovalResponse,
)
from .errors import AgentError as AgentError, AgentNameError as AgentNameError, TaskError as TaskError
from .guardrails.checks import (
    AnswerGuardrail as AnswerGuardrail,
    CallGuardrail as CallGuardrail,
    TaskGuardrail as TaskGuardrail,
)
from .guardrails.guardrail import Guardrail as Guardrail
from .guardrails.judging import Judgement as Judgement
from .guardrails.verdicts import Asks as Asks, Changed as Changed, Passed as Passed, Refused as Refused
from .handoff import Handoff as Handoff, HandoffInput as HandoffInput
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
