from .assistant.agent import AssistantAgent as AssistantAgent
from .base import BaseChatAgent as BaseChatAgent
from .chat_agent import ChatAgent as ChatAgent, Response as Response
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
from .task import TaskResult as TaskResult, TaskRunner as TaskRunner
from .team import Team as Team

__all__: list[str]
