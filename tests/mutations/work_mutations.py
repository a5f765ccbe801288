"""Ways to break the Lua functions: workers and their leases, keys and their order."""

from __future__ import annotations

from typing import Final

from .change import always, becomes, ignored, never, removed, when, with_part
from .mutation import (
    ACTIVATION,
    COMMIT,
    FENCING,
    ON,
    ORDER,
    REAPING,
    SCHEDULES,
    SUSPECTS,
    TAIL,
    WORLD,
    Mutation,
)

LAYOUT = "contract/test_layout.py::"
ALONE = "contract/test_alone.py::"

OF_WORKERS: Final = (
    Mutation(
        "fence check removed",
        "a reaped worker commits nothing",
        becomes("last = last or '0'"),
        (f"{FENCING}test_nothing_of_a_reaped_workers_turn_is_written{ON}",),
    ),
    Mutation(
        "a turn goes on after a lost tail",
        "a turn of a worker that knows more than the server is refused",
        removed,
        (f"{TAIL}test_nothing_that_was_committed_in_the_tail_is_committed_twice{ON}",),
    ),
    Mutation(
        "a heart beats on after a lost tail",
        "a beat of a worker that knows more than the server is refused",
        removed,
        (f"{TAIL}test_an_idle_worker_hears_it_from_its_heartbeat{ON}",),
        quick=False,
    ),
    Mutation(
        "resync believes a server that lost a tail",
        "a worker that asks what it holds, and knows more than the server, begins anew",
        removed,
        (f"{TAIL}test_an_unsure_worker_hears_it_when_it_asks{ON}",),
        quick=False,
    ),
    Mutation(
        "what another worker holds is committed",
        "only what is held is committed",
        removed,
        (
            f"{TAIL}test_a_commit_of_what_another_worker_holds_is_refused{ON}",
            f"{TAIL}test_a_commit_for_another_agent_is_refused{ON}",
        ),
    ),
    Mutation(
        "a number that the server has forgotten is given again",
        "a process gets no number twice",
        never,
        (f"{TAIL}test_a_process_gets_no_name_twice{ON}",),
        quick=False,
    ),
    Mutation(
        "stale call accepted",
        "a copy of an older turn is refused",
        removed,
        (f"{FENCING}test_a_copy_of_an_old_turn_is_refused{ON}",),
    ),
    Mutation(
        "number of the call not kept",
        "the number of a turn is kept",
        removed,
        (f"{FENCING}test_a_copy_of_an_old_turn_is_refused{ON}",),
        quick=False,
    ),
    Mutation(
        "reaped worker keeps its fence",
        "a reaped worker loses its fence",
        removed,
        (f"{FENCING}test_nothing_of_a_reaped_workers_turn_is_written{ON}",),
    ),
    Mutation(
        "resync lets in who was reaped",
        "resync does not bring back a reaped worker",
        removed,
        (f"{FENCING}test_beat_and_resync_of_a_fenced_worker_say_so{ON}",),
        quick=False,
    ),
    Mutation(
        "resync lets older turns in",
        "resync shuts out older turns",
        removed,
        (f"{FENCING}test_resync_tells_what_is_held_in_order_and_shuts_out_older_turns{ON}",),
        quick=False,
    ),
    Mutation(
        "beat brings back who was reaped",
        "a beat does not bring back a reaped worker",
        removed,
        (f"{FENCING}test_beat_and_resync_of_a_fenced_worker_say_so{ON}",),
        quick=False,
    ),
    Mutation(
        "lease not renewed",
        "a beat renews the lease",
        removed,
        (f"{REAPING}test_a_lease_ends_by_the_clock_of_the_server{ON}",),
    ),
    Mutation(
        "nobody is reaped",
        "a beat reaps whose lease ended",
        removed,
        (f"{REAPING}test_what_a_dead_worker_held_goes_back_in_front_and_in_order{ON}",),
    ),
    Mutation(
        "everybody is reaped",
        "a beat reaps nobody else",
        becomes("local expired = call('ZRANGE', P .. 'workers', 0, 7)"),
        (f"{REAPING}test_a_lease_that_has_not_ended_is_left_alone{ON}",),
        quick=False,
    ),
    Mutation(
        "epoch does not rise",
        "fencing tokens only rise",
        becomes("local number = 1"),
        (f"{FENCING}test_names_of_incarnations_only_rise{ON}",),
        quick=False,
    ),
    Mutation(
        "reaping keeps keys busy",
        "an agent without parked entries is free after reaping",
        removed,
        (f"{SCHEDULES}test_no_random_schedule_breaks_the_promise",),
        quick=False,
    ),
    Mutation(
        "reaping forgets what was held",
        "what a reaped worker held goes back",
        removed,
        (f"{REAPING}test_what_a_dead_worker_held_goes_back_in_front_and_in_order{ON}",),
    ),
    Mutation(
        "order reversed when entries go back",
        "what goes back keeps its order",
        with_part("#refs, 1, -1", "1, #refs"),
        (
            f"{REAPING}test_what_a_dead_worker_held_goes_back_in_front_and_in_order{ON}",
            f"{COMMIT}test_released_entries_go_to_others_at_once_in_order_without_an_attempt{ON}",
        ),
    ),
    Mutation(
        "an agent of which entries are parked again is given to others",
        "an agent of which entries are parked again stays with its worker",
        always,
        (f"{ACTIVATION}test_what_a_worker_gives_back_of_an_agent_that_it_keeps_is_parked_behind_it{ON}",),
    ),
    Mutation(
        "a death counts no attempt",
        "a death counts an attempt",
        with_part(" + 1", ""),
        (f"{SUSPECTS}test_what_a_worker_held_alone_is_tried_as_often_as_said_then_a_dead_letter{ON}",),
    ),
    Mutation(
        "every death is certain",
        "a death is certain for an entry that was held alone",
        becomes("guilt[i] = CERTAIN"),
        (f"{SUSPECTS}test_one_attempt_is_not_spent_by_who_may_be_innocent{ON}",),
    ),
    Mutation(
        "an outage begins anew with every death of a worker",
        "what was waited for an outage outlives its worker",
        becomes("return death"),
        (f"{SUSPECTS}test_what_was_waited_for_an_outage_outlives_the_worker[{{backend}}-0]",),
        quick=False,
    ),
    Mutation(
        "a death among others counts an attempt",
        "a death among others counts no attempt",
        with_part("tries_line(attempts,", "tries_line(attempts + 1,"),
        (f"{SUSPECTS}test_after_one_death_all_go_on_as_before_and_after_two_each_is_tried_alone{ON}",),
        quick=False,
    ),
    Mutation(
        "what ended its worker goes on beside others",
        "what ended its worker is tried alone",
        removed,
        (f"{SUSPECTS}test_after_one_death_that_is_its_own_it_is_tried_alone{ON}",),
        quick=False,
    ),
    Mutation(
        "all are reaped after a gap",
        "after a gap nobody is reaped for a lease",
        removed,
        (f"{REAPING}test_who_is_silent_a_lease_after_the_gap_is_reaped{ON}",),
    ),
    Mutation(
        "patience has no end",
        "patience has an end",
        becomes("return 0"),
        (f"{REAPING}test_where_every_beat_is_late_the_dead_are_reaped_all_the_same{ON}",),
        quick=False,
    ),
    Mutation(
        "who joins hides a gap",
        "a gap is seen by who joins",
        becomes("call('HSET', P .. 'beats', 'last', now_as_text())"),
        (f"{REAPING}test_a_new_worker_waits_one_lease_for_the_dead_of_before{ON}",),
        quick=False,
    ),
    Mutation(
        "leaving in peace counts an attempt",
        "leaving in peace counts no attempt",
        always,
        (f"{REAPING}test_leaving_in_peace_counts_no_attempt{ON}",),
        quick=False,
    ),
    Mutation(
        "suspects not alone",
        "a suspect waits for a worker that holds nothing",
        never,
        (f"{SUSPECTS}test_a_worker_that_holds_something_is_told_that_a_suspect_waits{ON}",),
    ),
    Mutation(
        "others come along with a suspect",
        "nothing comes along with a suspect",
        ignored,
        (f"{SUSPECTS}test_after_one_death_that_is_its_own_it_is_tried_alone{ON}",),
        quick=False,
    ),
    Mutation(
        "a suspect comes along with others",
        "a suspect goes nowhere beside others",
        removed,
        (f"{SUSPECTS}test_a_suspect_behind_another_message_is_not_handed_over_with_what_else_is_held{ON}",),
        quick=False,
    ),
    Mutation(
        "consumer goes with its pending entries",
        "what a consumer has pending stays when it goes",
        becomes("redis.pcall('XGROUP', 'DELCONSUMER', P .. suffix, agent_type, worker)"),
        (f"{SCHEDULES}test_no_random_schedule_breaks_the_promise",),
        quick=False,
    ),
)

OF_KEYS: Final = (
    Mutation(
        "busy keys are given to others",
        "a busy agent is given to nobody else",
        when("holder ~= worker"),
        (f"{ACTIVATION}test_a_busy_key_is_given_to_nobody_else{ON}",),
    ),
    Mutation(
        "no parked check",
        "nothing overtakes what is parked",
        when("holder == worker"),
        (f"{ACTIVATION}test_more_of_a_key_that_a_worker_holds_goes_to_it_while_nothing_is_parked{ON}",),
    ),
    Mutation(
        "parked order reversed",
        "what is parked keeps its order",
        with_part("RPUSH", "LPUSH"),
        (f"{ACTIVATION}test_whoever_finishes_a_key_gets_what_waits_behind_it{ON}",),
    ),
    Mutation(
        "parked entries not counted",
        "what is parked is counted",
        removed,
        (f"{ACTIVATION}test_whoever_finishes_a_key_gets_what_waits_behind_it{ON}",),
        quick=False,
    ),
    Mutation(
        "what was parked is taken twice",
        "what is taken is not parked any more",
        removed,
        (f"{ACTIVATION}test_a_long_queue_behind_a_key_is_handed_over_in_parts_and_in_order{ON}",),
        quick=False,
    ),
    Mutation(
        "a finished key stays busy",
        "an agent is free after its last commit",
        removed,
        (f"{FENCING}test_a_lease_that_ended_holds_until_somebody_else_takes_over{ON}",),
    ),
    Mutation(
        "a stream is read once only",
        "a stream that may hold more is read on",
        becomes("stream.is_cut = false"),
        (f"{ALONE}test_what_ends_with_the_last_id_has_been_read_to_its_end{ON}",),
    ),
    Mutation(
        "nothing is ever out of the ordinary",
        "what is out of the ordinary is looked at",
        becomes("turn.is_calm = true"),
        (f"{ACTIVATION}test_whoever_finishes_a_key_gets_what_waits_behind_it{ON}",),
    ),
    Mutation(
        "what is parked of another type is not handed over",
        "a worker may commit of a type of which it takes nothing",
        never,
        (
            f"{ACTIVATION}test_what_a_worker_gives_back_of_an_agent_that_it_keeps_is_parked_behind_it{ON}",
        ),
        quick=False,
    ),
    Mutation(
        "what goes back with a commit is overtaken",
        "what commits leave behind is looked at",
        never,
        (
            f"{ALONE}test_what_goes_back_with_a_commit_is_not_overtaken_in_the_same_turn{ON}",
            f"{ALONE}test_a_turn_tells_of_a_timer_that_its_own_commit_has_set{ON}",
        ),
    ),
    Mutation(
        "a key is let go while more of it is held",
        "an agent stays with the worker that holds more of it",
        becomes("said.is_last = true"),
        (f"{ACTIVATION}test_a_key_stays_with_the_worker_while_it_holds_more_of_it{ON}",),
    ),
    Mutation(
        "who takes nothing is handed more",
        "a worker that takes nothing more is handed nothing",
        with_part("turn.accept > 0 and ", ""),
        (f"{ACTIVATION}test_who_takes_nothing_more_leaves_the_key_to_others{ON}",),
        quick=False,
    ),
    Mutation(
        "streams not merged",
        "streams are merged in the order of publishing",
        removed,
        (f"{ORDER}test_order_over_streams_within_a_millisecond{ON}",),
        quick=False,
    ),
    Mutation(
        "a gap in another stream does not hold back",
        "a gap in another stream holds back what is newer",
        when("count > 0"),
        (f"{ORDER}test_what_was_read_ahead_of_another_stream_comes_in_its_turn{ON}",),
        quick=False,
    ),
    Mutation(
        "what was read ahead is dropped",
        "what was read ahead is kept",
        removed,
        (f"{ORDER}test_what_was_read_ahead_of_another_stream_comes_in_its_turn{ON}",),
        quick=False,
    ),
    Mutation(
        "ids do not rise over streams",
        "ids rise over all streams",
        removed,
        (f"{ORDER}test_order_over_streams_within_a_millisecond{ON}",),
        quick=False,
    ),
    Mutation(
        "a stream with unread entries is forgotten",
        "a stream with new entries is remembered",
        removed,
        (f"{WORLD}test_new_entries_are_found_without_looking_everywhere{ON}",),
        quick=False,
    ),
    Mutation(
        "a namespace of another layout is used",
        "a namespace of another layout is left alone",
        becomes("local other = nil"),
        (f"{LAYOUT}test_every_function_leaves_another_layout_alone[{{backend}}-a newer one]",),
        quick=False,
    ),
)

WORK_MUTATIONS: Final = (*OF_WORKERS, *OF_KEYS)
