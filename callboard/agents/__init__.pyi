from .a2a_agent import A2AAgent as A2AAgent
from .assistant import AssistantAgent as AssistantAgent
from .base import (
    BaseChatAgent as BaseChatAgent,
    ChatAgent as ChatAgent,
    Response as Response,
    TaskResult as TaskResult,
    TaskRunner as TaskRunner,
    Team as Team,
)
from .code_executor import (
    ApprovalFuncType as ApprovalFuncType,
    ApprovalRequest as ApprovalRequest,
    ApprovalResponse as ApprovalResponse,
    CodeExecutorAgent as CodeExecutorAgent,
)
from .errors import (
    AgentError as AgentError,
    AgentSettingError as AgentSettingError,
    RemoteAgentUnreachableError as RemoteAgentUnreachableError,
    RemoteTaskError as RemoteTaskError,
)
from .guardrails import (
    Asks as Asks,
    Changed as Changed,
    Guardrail as Guardrail,
    Passed as Passed,
    Refused as Refused,
)
from .handoff import Handoff as Handoff, HandoffInput as HandoffInput
from .judges import (
    AnswerGuardrail as AnswerGuardrail,
    CallGuardrail as CallGuardrail,
    Judgement as Judgement,
    TaskGuardrail as TaskGuardrail,
)
from .message_filter import (
    MessageFilterAgent as MessageFilterAgent,
    MessageFilterConfig as MessageFilterConfig,
    PerSourceFilter as PerSourceFilter,
)
from .runner_tool import AgentTool as AgentTool, TeamTool as TeamTool
from .society_of_mind import SocietyOfMindAgent as SocietyOfMindAgent
from .user_proxy import UserProxyAgent as UserProxyAgent

__all__: list[str]
