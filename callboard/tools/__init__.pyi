import callboard.agents

from .approval import (
    Approval as Approval,
    ApprovalRule as ApprovalRule,
    NeedsApproval as NeedsApproval,
)
from .base import (
    BaseStreamTool as BaseStreamTool,
    BaseTool as BaseTool,
    BaseToolWithState as BaseToolWithState,
    StreamTool as StreamTool,
    Tool as Tool,
)
from .call import IfUnknown as IfUnknown, tool_context as tool_context
from .dynamic import DynamicWorkbench as DynamicWorkbench
from .errors import ToolError as ToolError
from .function import FunctionTool as FunctionTool, tool as tool
from .http import HttpLimits as HttpLimits, HttpTool as HttpTool
from .json_model import schema_to_pydantic_model as schema_to_pydantic_model
from .langchain import LangChainToolAdapter as LangChainToolAdapter
from .mcp import (
    McpWorkbench as McpWorkbench,
    StdioServerParams as StdioServerParams,
    StreamableHttpServerParams as StreamableHttpServerParams,
)
from .remote import RemoteTool as RemoteTool, ToolCallRequest as ToolCallRequest
from .runner import ToolEvent as ToolEvent, run_tools as run_tools
from .schema import ParametersSchema as ParametersSchema, ToolSchema as ToolSchema
from .static import (
    StaticStreamWorkbench as StaticStreamWorkbench,
    StaticWorkbench as StaticWorkbench,
    ToolOverride as ToolOverride,
)
from .tool_agent import ToolAgent as ToolAgent, tool_agent_caller_loop as tool_agent_caller_loop
from .workbench import (
    ImageResultContent as ImageResultContent,
    ResultContent as ResultContent,
    ResultLimits as ResultLimits,
    StreamWorkbench as StreamWorkbench,
    TextResultContent as TextResultContent,
    ToolResult as ToolResult,
    Workbench as Workbench,
)

AgentTool = callboard.agents.AgentTool
TeamTool = callboard.agents.TeamTool
__all__: list[str]
