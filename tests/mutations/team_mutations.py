"""Ways to break what keeps a team's conversation in one piece."""

from __future__ import annotations

from typing import Final

from .change import becomes, removed, when
from .mutation import ON, Mutation

TEAMS = "contract/test_teams.py::"
GOES_ON = f"{TEAMS}test_a_conversation_goes_on_in_a_process_that_has_been_in_it_before{ON}"

TEAM_MUTATIONS: Final = (
    Mutation(
        "an answer that nobody waits for is heard",
        "a turn is heard once",
        when("speaking is None"),
        ("unit/actors/teams/test_loop.py::test_an_answer_of_a_turn_that_is_over_is_not_heard",),
    ),
    Mutation(
        "an outage ends a run",
        "an outage is waited for, and any other error ends the run",
        when("False"),
        (f"{TEAMS}test_an_outage_in_the_middle_of_a_choice_is_waited_for{ON}",),
    ),
    Mutation(
        "a manager goes on from what it has in memory",
        "a manager goes on from what its last message left",
        when("self._loop is None"),
        (GOES_ON,),
    ),
    Mutation(
        "a member goes on from what it has in memory",
        "a member goes on from what its last turn left",
        when("self._agent is None"),
        (GOES_ON,),
    ),
    Mutation(
        "a member is told again what came with a turn that was called off",
        "what came with a turn that was called off is not heard twice",
        becomes("told = dict[int, int]()"),
        (f"contract/test_teams_attacked.py::test_what_a_cancelled_turn_heard_is_not_heard_again{ON}",),
    ),
    Mutation(
        "a run has no limits",
        "a run's limits are there before its first request",
        removed,
        (f"contract/test_team_budgets.py::test_no_request_exceeds_the_tokens_and_what_was_said_is_kept{ON}",),
    ),
    Mutation(
        "a turn fails with any dead letter of its member",
        "a turn fails with its own dead letter only",
        when("speaking is not None"),
        (f"contract/test_teams_failing.py::test_a_dead_letter_of_another_turn_fails_nothing{ON}",),
    ),
    Mutation(
        "what a dead process has said counts",
        "what a dead process has said is void",
        when("False"),
        (
            "unit/actors/teams/test_reading.py::test_another_attempt_makes_the_first_void",
            "unit/actors/teams/test_reading.py::test_another_attempt_without_drafts_makes_the_first_void",
        ),
    ),
)
