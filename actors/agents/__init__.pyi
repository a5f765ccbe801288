from .base import BaseChatAgent as BaseChatAgent
from .chat_agent import ChatAgent as ChatAgent, Response as Response
from .errors import AgentError as AgentError, AgentNameError as AgentNameError, TaskError as TaskError
from .handoff import Handoff as Handoff
from .task import TaskResult as TaskResult, TaskRunner as TaskRunner
from .team import Team as Team

__all__: list[str]
