"""Ways to break the logs of an agent's state."""

from __future__ import annotations

from typing import Final

from .change import becomes, never, removed
from .mutation import ON, Mutation

LOGS = "contract/test_logs.py::"
RUNTIME_LOGS = "contract/test_runtime_logs.py::"
LOG = "unit/test_log.py::"

LOG_MUTATIONS: Final = (
    Mutation(
        "acknowledged and not done: nothing is appended",
        "a commit appends to the logs",
        removed,
        (f"{LOGS}test_a_commit_appends_trims_and_leaves_the_rest_alone{ON}",),
    ),
    Mutation(
        "what was trimmed comes back",
        "what was trimmed is removed",
        removed,
        (f"{LOGS}test_a_commit_appends_trims_and_leaves_the_rest_alone{ON}",),
        quick=False,
    ),
    Mutation(
        "half of a commit: one log is written before another can't be",
        "every log is looked at before one is written",
        removed,
        (f"{LOGS}test_a_log_that_was_changed_by_hand_is_not_appended_to{ON}",),
    ),
    Mutation(
        "an agent that was reset still has its logs",
        "a reset takes the logs away",
        removed,
        (f"{LOGS}test_a_reset_takes_the_logs_away{ON}",),
        quick=False,
    ),
    Mutation(
        "what comes after a commit that failed is appended without it",
        "a log is appended to only by who has read it",
        never,
        (f"{LOGS}test_what_comes_after_a_commit_that_could_not_be_written_is_not_written_either{ON}",),
        quick=False,
    ),
    Mutation(
        "a commit appends to a state that was replaced",
        "a worker whose states were replaced begins anew",
        never,
        (f"{LOGS}test_a_worker_whose_state_was_replaced_meanwhile_begins_anew{ON}",),
    ),
    Mutation(
        "a log is read from two versions",
        "a state and its logs are of one version",
        never,
        (f"{LOGS}test_a_state_that_is_replaced_while_it_is_read_is_read_again{ON}",),
        quick=False,
    ),
    Mutation(
        "a log that lost items counts as whole",
        "a log that lost items is not taken for whole",
        never,
        (f"{RUNTIME_LOGS}test_a_log_that_lost_items_is_an_error_and_no_shorter_log{ON}",),
        quick=False,
    ),
    Mutation(
        "what was appended stays in memory only",
        "a commit carries what was appended",
        becomes("return None"),
        (f"{LOG}test_a_commit_carries_what_is_new",),
        quick=False,
    ),
    Mutation(
        "a handler that failed has appended",
        "a failed handler appends nothing",
        removed,
        (
            f"{LOG}test_a_failed_handler_leaves_it_as_it_was",
            f"{RUNTIME_LOGS}test_failures_leave_nothing_and_retries_append_once{ON}",
        ),
    ),
    Mutation(
        "a server that is away for a moment uses up the attempts of what it should be read for",
        "a server that is away while a state is read costs no attempt",
        becomes("return await self.load_state(agent_type, key)"),
        (f"{RUNTIME_LOGS}test_a_server_that_is_away_while_it_is_read_costs_no_attempt{ON}",),
        quick=False,
    ),
)
