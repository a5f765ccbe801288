"""A planning agent that writes its handoffs itself, with all that the others have to know.

It does not know which tools there are: it asks the search agent for each part of its task, with a question of its own, and
hands the plan over to the coordinator, who calls the tools.

    python -m examples.dispatcher "Which materials has the scene in the folder 'demo'?"
"""

from __future__ import annotations

from pydantic import BaseModel

from callboard import App
from callboard.agents import AssistantAgent
from callboard.conditions import MaxMessageTermination, TextMentionTermination
from callboard.dispatch import DynamicDispatcher, DynamicDispatcherAgent, TypedHandoff, WorkbenchSearchAgent
from callboard.teams import Swarm
from callboard.tools import DynamicWorkbench, FunctionTool
from examples.models import make_model, show

from . import script

TASK = "Which materials has the scene in the folder 'demo'?"
PLANNING = (
    "You plan how a task is carried out, and carry out nothing yourself. Ask search_agent which tools there are for it: "
    "create a handoff to search_agent with a message that says what the tools must do, and use it. When you know the tools, "
    "create a handoff to coordinator whose message is the whole plan, step by step, with the names and arguments of the "
    "tools, and use it."
)
COORDINATING = "You carry out the plan that you are given, by calling its tools. Then tell the result; end with TERMINATE."


class Found(BaseModel):
    """What the search agent tells the planning agent."""

    analysis: str


async def list_scenes(folder: str) -> list[str]:
    """Lists the scenes in a folder."""
    return [f"{folder}/teapot.gltf"]


async def list_materials(scene: str) -> list[str]:
    """Lists the names of the materials of a scene."""
    return ["porcelain", "gold"]


async def delete_scene(scene: str) -> str:
    """Deletes a scene for ever."""
    return f"{scene} is deleted."


def make_workbench() -> DynamicWorkbench:
    tools = (list_scenes, list_materials, delete_scene)
    workbench = DynamicWorkbench([FunctionTool(one, description=str(one.__doc__)) for one in tools])
    workbench.disable_tool("delete_scene")  # found, and said to be disabled
    return workbench


def make_team() -> Swarm:
    workbench = make_workbench()
    planning = DynamicDispatcherAgent(
        "planning_agent",
        make_model(script.planning),
        dispatcher=DynamicDispatcher(["search_agent", "coordinator"]),
        description="Plans.",
        system_message=PLANNING,
    )
    search = WorkbenchSearchAgent(
        "search_agent",
        make_model(script.searching),
        workbench,
        handoffs=[
            TypedHandoff(
                target="planning_agent",
                description="Tells the planning agent which tools there are.",
                message="This is what I found.",
                input_type=Found,
            )
        ],
    )
    coordinator = AssistantAgent(
        "coordinator",
        make_model(script.coordinating),
        workbench=workbench,
        max_tool_iterations=10,
        description="Carries out plans.",
        system_message=COORDINATING,
    )
    return Swarm(
        [planning, search, coordinator],
        name="planning",
        termination_condition=TextMentionTermination("TERMINATE", sources=["coordinator"])
        | MaxMessageTermination(60),
    )


app = App("planning")
app.team(make_team())


async def main() -> None:
    await show(make_team(), TASK)
