"""Ways to break what keeps the agents of a pattern together."""

from __future__ import annotations

from typing import Final

from .change import never, removed, when, with_part
from .mutation import ON, Mutation

PATTERNS = "contract/test_team_patterns.py::"
ONCE = f"{PATTERNS}test_what_fails_in_the_middle_happens_once"
UNIT = "unit/ag2/"

KILLED = "integration/test_calls_killed.py::test_a_call_that_was_done_before_a_kill_is_not_made_again"

PATTERN_MUTATIONS: Final = (
    Mutation(
        "what a function has changed is forgotten with the attempt that called it",
        "what a function has changed is changed when its record is read",
        removed,
        (f"{ONCE}[{{backend}}-member-member answers]",),
        quick=False,
    ),
    Mutation(
        "what a function of a run has changed is forgotten with the process that called it",
        "what a function of a run has changed is changed when its record is read",
        removed,
        (f"{KILLED}[redis-count count-1 and 2-done1]",),
        quick=False,
    ),
    Mutation(
        "what a function that decides has changed is forgotten with the attempt that called it",
        "what a function that decides has changed is changed when its record is read",
        removed,
        (f"{ONCE}[{{backend}}-bus_run-turn ends]",),
        quick=False,
    ),
    Mutation(
        "a manager in another process does not know the variables",
        "a manager knows what the messages of its thread have changed",
        removed,
        (f"{PATTERNS}test_a_manager_in_another_process_knows_the_variables{ON}",),
        quick=False,
    ),
    Mutation(
        "a user names who is next",
        "who is outside the group names no target",
        when("NEXT_TARGET in last"),
        (f"{UNIT}test_pattern_rule.py::test_nobody_from_outside_names_a_target",),
    ),
    Mutation(
        "a model calls what another agent was given",
        "an agent calls what it was offered, and who is outside the group calls nothing",
        with_part(
            "own.functions", "{k: v for one in self._abilities.values() for k, v in one.functions.items()}"
        ),
        (f"{UNIT}test_patterns.py::test_nobody_calls_what_others_were_given",),
    ),
    Mutation(
        "a model hands over by a tool that it was not offered",
        "a handoff that is not available is not made",
        never,
        (f"{UNIT}test_patterns.py::test_what_is_available_and_what_the_model_is_told_changes_at_every_turn",),
    ),
    Mutation(
        "a task that nobody can read stays in the conversation, and ends every run to come",
        "a task that can't be read is no part of the conversation",
        removed,
        (f"{PATTERNS}test_a_task_that_nobody_could_read_is_no_part_of_the_conversation[{{backend}}]",),
        quick=False,
    ),
)
