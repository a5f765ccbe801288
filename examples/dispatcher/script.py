"""What the agents say when there is no key."""

from __future__ import annotations

from examples.models import call, in_turn

planning = in_turn(
    call(
        "create_handoff",
        name="ask_for_scene_tools",
        target="search_agent",
        description="To find out which tools work with scenes.",
        message="Which tools list scenes, and which list the materials of one?",
    ),
    call("ask_for_scene_tools"),
    call(
        "create_handoff",
        name="complete_plan",
        target="coordinator",
        description="The plan is complete.",
        message="1. Call list_scenes for the folder 'demo'. 2. Call list_materials for the scene. 3. Tell their names.",
    ),
    call("complete_plan"),
)
searching = in_turn(
    call("search_tools", query="list the materials of a scene"),
    call("get_tool_documentation", name="list_materials"),
    call(
        "transfer_to_planning_agent",
        analysis="list_scenes(folder) lists scenes; list_materials(scene) lists the materials of one.",
    ),
)
coordinating = in_turn(
    call("list_scenes", folder="demo"),
    call("list_materials", scene="demo/teapot.gltf"),
    "The teapot is of porcelain and gold. TERMINATE",
)
