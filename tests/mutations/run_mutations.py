"""Ways to break the streams of runs, what the sender of a buried message hears, and interruptions."""

from __future__ import annotations

from typing import Final

from .change import always, never, removed
from .mutation import ON, Mutation

STREAMS = "contract/test_runtime_run_streams.py::"
WRITES = "contract/test_run_writes.py::"
READER = "unit/broker/redis/client/test_run_reader.py::"
INTERRUPT = "contract/test_runtime_interrupt.py::"
SCHEDULES = "contract/test_runtime_schedules.py::"
TELLS = "contract/test_buried_tells.py::"

RUN_MUTATIONS: Final = (
    Mutation(
        "acknowledged and not done: nothing is written to the run",
        "a commit writes to its runs",
        never,
        (f"{STREAMS}test_in_a_handler_it_is_written_with_the_commit{ON}",),
    ),
    Mutation(
        "a commit that is void writes to its runs",
        "a commit writes to its runs",
        always,
        (f"{WRITES}test_a_cancelled_request_writes_nothing{ON}",),
        quick=False,
    ),
    Mutation(
        "what a failed attempt did is shown",
        "what a handler writes to a run waits for its commit",
        never,
        (
            f"{STREAMS}test_in_a_handler_it_is_written_with_the_commit{ON}",
            f"{STREAMS}test_a_failed_attempt_writes_nothing{ON}",
        ),
        quick=False,
    ),
    Mutation(
        "a zombie writes to a run",
        "what a zombie writes to a run is refused",
        never,
        (f"{WRITES}test_a_worker_that_lost_its_message_writes_nothing{ON}",),
    ),
    Mutation(
        "an answer that was lost shows an event twice",
        "a batch is written once",
        never,
        (f"{WRITES}test_a_batch_that_comes_again_is_written_once{ON}",),
        quick=False,
    ),
    Mutation(
        "drafts stay",
        "drafts go when they are settled",
        removed,
        (f"{STREAMS}test_drafts_go_when_they_are_settled{ON}",),
        quick=False,
    ),
    Mutation(
        "drafts that are settled twice stay",
        "drafts that are settled again are settled as far as before",
        never,
        (
            f"contract/test_portions.py::test_drafts_that_are_settled_twice_are_settled_as_far_as_the_first_time{ON}",
        ),
        quick=False,
    ),
    Mutation(
        "a run stays for ever",
        "a run is kept for some time after its last event",
        removed,
        (f"{STREAMS}test_it_is_kept_for_some_time{ON}",),
        quick=False,
    ),
    Mutation(
        "who reads along waits for a number that will not come",
        "a reader that lost its connection looks for its place",
        removed,
        (f"{READER}test_after_a_lost_connection_it_looks_for_its_place",),
        quick=False,
    ),
    Mutation(
        "a run that begins is nowhere to be found",
        "a run that begins is listed",
        never,
        (f"{STREAMS}test_runs_are_listed_the_newest_first{ON}",),
        quick=False,
    ),
    Mutation(
        "the list of runs grows for ever",
        "the list of runs forgets those that are gone",
        removed,
        (f"{STREAMS}test_runs_whose_streams_went_by_themselves_leave_the_list{ON}",),
        quick=False,
    ),
    Mutation(
        "an entry that was added by hand keeps a run from being written",
        "an entry that a person added to a run stops nobody",
        never,
        (f"{STREAMS}test_an_entry_that_no_event_can_follow_stops_neither_writers_nor_readers{ON}",),
    ),
    Mutation(
        "a firing does not ask whether it was there before",
        "each due time fires once",
        never,
        (f"{SCHEDULES}test_what_is_not_due_as_a_process_believes_is_not_sent{ON}",),
    ),
    Mutation(
        "a schedule fires although it is paused",
        "what is paused fires nothing",
        never,
        (f"{SCHEDULES}test_what_is_not_due_as_a_process_believes_is_not_sent{ON}",),
        quick=False,
    ),
    Mutation(
        "a process that starts forgets what fell due before",
        "a process that starts does not set the clock of a schedule back",
        never,
        (f"{SCHEDULES}test_what_was_missed_is_made_up_for_as_was_said{ON}",),
        quick=False,
    ),
    Mutation(
        "what was sent is sent again when the timetable changes",
        "what was sent is not due again by another timetable",
        never,
        (f"{SCHEDULES}test_what_was_sent_is_not_due_again_by_another_timetable{ON}",),
        quick=False,
    ),
    Mutation(
        "nobody says that a message was buried",
        "who sent a message hears that it was buried",
        removed,
        (f"{TELLS}test_one_whose_process_died{ON}",),
    ),
    Mutation(
        "what runs goes on although it is paused at once",
        "a pause at once ends what runs",
        removed,
        (f"{INTERRUPT}test_what_runs_is_interrupted_and_runs_again{ON}",),
        quick=False,
    ),
    Mutation(
        "the next handler is taken for one that was interrupted",
        "a handler that ignores an interruption leaves none to the next",
        never,
        (f"{INTERRUPT}test_a_handler_that_goes_on_all_the_same{ON}",),
        quick=False,
    ),
)
