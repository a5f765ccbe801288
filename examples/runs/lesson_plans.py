"""A teacher, a planner and a reviewer make lesson plans, with three ways to decide who speaks next.

python -m examples.runs.lesson_plans [manager|selector|round_robin]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from callboard.conditions import TextMentionTermination
from callboard.groupchat import ConversableAgent, GroupChat, GroupChatManager
from callboard.models import LLMMessage
from callboard.runs import (
    ConsoleProcessor,
    RoundRobinChatManager,
    RunResponse,
    SelectorChatManager,
    process_run_response,
    run,
)
from examples.models import call, in_turn, make_model

TASK = "Create lesson plans for 4th grade."
FIRST = "Plan is: Math, Learn addition and subtraction. Script: teach them with examples."
CHANGE = "I would change the addition and subtraction to multiplication and division."
SECOND = "Plan is: Math, Learn multiplication and division. Script: teach them with examples."


def submit_plan(plan: str) -> str:
    """Submits a lesson plan."""
    return f"Plan submitted: {plan}"


def agents() -> tuple[ConversableAgent, ConversableAgent, ConversableAgent]:
    planner = ConversableAgent(
        "planner_agent",
        system_message="Create lesson plans for 4th grade.",
        description="Creates lesson plans",
        llm_config=make_model(in_turn(FIRST, SECOND)),
    )
    reviewer = ConversableAgent(
        "reviewer_agent",
        system_message="Review lesson plans against 4th grade curriculum. Provide max 3 changes.",
        description="Reviews lesson plans",
        llm_config=make_model(in_turn(CHANGE, "Good.")),
    )
    teacher = ConversableAgent(
        "teacher_agent",
        system_message="Choose topics and work with planner and reviewer. Say DONE! when finished.",
        llm_config=make_model(
            in_turn(
                call("submit_plan", plan="multiplication and division"),
                "The first lesson is submitted. DONE!",
            )
        ),
    )
    return planner, reviewer, teacher


def next_speaker(messages: Sequence[LLMMessage]) -> str:
    """What the model says that chooses speakers: planner, reviewer, planner again, teacher."""
    order = ("planner_agent", "reviewer_agent", "planner_agent", "teacher_agent")
    said = sum(getattr(message, "source", "") in order for message in messages)
    return order[min(said, len(order) - 1)]


def by_manager() -> RunResponse:
    """AG2's manager of a group chat; its model chooses."""
    planner, reviewer, teacher = agents()
    manager = GroupChatManager(
        GroupChat([teacher, planner, reviewer], speaker_selection_method="auto"),
        name="group_manager",
        llm_config=make_model(next_speaker),
        is_termination_msg=lambda message: "DONE!" in (message.get("content", "") or "").upper(),
    )
    return run(planner, reviewer, teacher, message=TASK, chat_manager=manager, tools=[submit_plan])


def by_selector() -> RunResponse:
    """A chat manager that takes the agents of the run, and ends it by a condition."""
    manager = SelectorChatManager(
        llm_config=make_model(next_speaker),
        terminate_on=TextMentionTermination("DONE!"),
    )
    return run(*agents(), message=TASK, chat_manager=manager, tools=[submit_plan], max_turns=20)


def by_round_robin() -> RunResponse:
    """One after the other."""
    planner, reviewer, teacher = agents()
    manager = RoundRobinChatManager(
        [planner, reviewer, teacher], is_termination_msg=lambda message: "DONE!" in message["text"]
    )
    return run(planner, reviewer, teacher, message=TASK, chat_manager=manager, tools=[submit_plan])


FORMS = {"manager": by_manager, "selector": by_selector, "round_robin": by_round_robin}

if __name__ == "__main__":
    process_run_response(FORMS[(sys.argv[1:] or ["manager"])[0]](), ConsoleProcessor())
