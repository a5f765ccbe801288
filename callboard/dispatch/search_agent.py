"""The agent that finds tools for others."""

from __future__ import annotations

from typing import Any, Final

from callboard.agents.assistant import AssistantAgent, AssistantAgentConfig
from callboard.foundation.component import NotDumpableError
from callboard.models.base import ChatCompletionClient
from callboard.tools.dynamic import DynamicWorkbench
from callboard.tools.function import FunctionTool
from callboard.tools.schema import ToolSchema

DESCRIPTION: Final = "An agent that finds out which tools there are for a task."
SYSTEM_MESSAGE: Final = (
    "You find out which tools fit a task. Look for them with search_tools, in several ways when you have to, read what they "
    "need with get_tool_documentation, and tell which ones fit, with their exact names and arguments. You can't call them: "
    "others do. When there is none, say so."
)
LIMIT: Final = 10
MAX_TOOL_ITERATIONS: Final = 10


class WorkbenchSearchAgent(AssistantAgent):
    """An assistant that searches a workbench and can't call its tools; after the proposal of AutoGen #4721.

    Its model has two tools, `search_tools` and `get_tool_documentation`. They find disabled tools, too, so that a person may
    enable them, and say which are. AutoGen's own workbenches have no search.

    Args:
        name: A Python identifier.
        model_client: Its model.
        workbench: Where it searches; it stays as it is.
        description: What it can do, for those who choose who speaks.
        system_message: What every prompt begins with; None: nothing.
        limit: The most tools that one search finds.
        max_tool_iterations: How often the model may search or read in one turn, several at once being one time.
        **options: See AssistantAgent; `tools` and `workbench` are not among them.

    Raises:
        AgentSettingError: As AssistantAgent (a ValueError).
    """

    def __init__(
        self,
        name: str,
        model_client: ChatCompletionClient,
        workbench: DynamicWorkbench,
        description: str = DESCRIPTION,
        system_message: str | None = SYSTEM_MESSAGE,
        *,
        limit: int = LIMIT,
        max_tool_iterations: int = MAX_TOOL_ITERATIONS,
        **options: Any,
    ) -> None:
        super().__init__(
            name,
            model_client,
            tools=[_searching(workbench, limit), _reading(workbench)],
            description=description,
            system_message=system_message,
            max_tool_iterations=max_tool_iterations,
            **options,
        )

    def _to_config(self) -> AssistantAgentConfig:
        raise NotDumpableError(
            type(self).__name__, "what it searches is not written down: make it in your program"
        )


def _searching(workbench: DynamicWorkbench, limit: int) -> FunctionTool:
    async def search_tools(query: str) -> str:
        """Searches for tools by what they do.

        Args:
            query: What has to be done, in a few words.
        """
        names = await workbench.search(query, limit)
        tools = {tool.name: tool.schema for tool in workbench.tools}
        found = [_line(tools[name], workbench.is_enabled(name)) for name in names if name in tools]
        return "\n".join(found) or "No tool was found. Try other words."

    return FunctionTool(search_tools, name="search_tools", description="Searches for tools by what they do.")


def _line(schema: ToolSchema, is_enabled: bool) -> str:
    about = " ".join(schema.get("description", "").split())
    return f"{schema['name']}: {about}{'' if is_enabled else ' (disabled at the moment)'}"


def _reading(workbench: DynamicWorkbench) -> FunctionTool:
    async def get_tool_documentation(name: str) -> str:
        """Reads what a tool does and which arguments it takes.

        Args:
            name: Its exact name.
        """
        return workbench.get_tool_documentation(name)

    return FunctionTool(
        get_tool_documentation,
        name="get_tool_documentation",
        description="Reads what a tool does and which arguments it takes.",
    )
