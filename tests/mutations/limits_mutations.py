"""Ways to break what keeps calls short, and what is refused or removed because it would stay for ever."""

from __future__ import annotations

from typing import Final

from tests.helpers.servers import best_kind

from .change import always, becomes, never, removed, when, with_part
from .mutation import ON, PUBLISH, TRIMMING, Mutation

LIMITS = "contract/test_limits.py::"
ONE_MILLISECOND = f"{LIMITS}test_many_topics_with_much_of_one_millisecond_are_all_read{ON}"
EVERY_TURN_LOOKS = f"{LIMITS}test_many_topics_are_read_although_every_turn_looks_at_all_of_them{ON}"
FORGETTING = f"{TRIMMING}test_a_topic_that_a_prefix_made_goes_when_it_is_over_and_comes_again{ON}"
ADOPTING = f"{LIMITS}test_a_group_that_is_made_again_adopts_much_in_parts{ON}"
LEAVING = f"{LIMITS}test_the_consumer_of_a_worker_with_much_pending_goes_in_the_end{ON}"

PORTIONS = "contract/test_portions.py::"
LEAVING_MANY = f"{PORTIONS}test_what_a_worker_leaves_in_many_topics_moves_in_portions{ON}"
RESTARTED, OWN = "integration/test_faults_portions.py::", f"[{best_kind()}]"
DRAFTS = f"{PORTIONS}test_many_drafts_are_settled_in_portions{ON}"

LEDGER = "contract/test_ledger.py::"
WINDOWS = "contract/test_windows.py::"
ADMISSION = "unit/models/test_admission.py::"

LIMITS_MUTATIONS: Final = (
    Mutation(
        "what a turn has no room for waits for a bell",
        "what one turn does not give comes with the next",
        removed,
        (f"{LIMITS}test_agents_that_a_turn_has_no_room_for_come_with_the_next{ON}",),
        quick=False,
    ),
    Mutation(
        "streams that were not read count as read",
        "streams that are not read yet hold back what is newer",
        becomes("return suffixes"),
        (f"{LIMITS}test_topics_that_a_turn_does_not_read_hold_back_what_is_newer{ON}",),
    ),
    Mutation(
        "the first streams of a millisecond are read again and again",
        "as many streams of one millisecond as there may be are all read",
        never,
        (ONE_MILLISECOND,),
        quick=False,
    ),
    Mutation(
        "what was read of a millisecond is forgotten",
        "streams of which nothing was read come first",
        becomes("local list = untouched"),
        (ONE_MILLISECOND,),
        quick=False,
    ),
    Mutation(
        "streams that were read ahead keep their place",
        "streams that were read ahead make room for others",
        removed,
        (f"{LIMITS}test_topics_that_were_read_ahead_make_room_when_a_scan_names_all_of_them{ON}",),
        quick=False,
    ),
    Mutation(
        "what a look names keeps streams of one millisecond from being read",
        "what a look at all streams names is read beside streams of one millisecond",
        never,
        (EVERY_TURN_LOOKS,),
        quick=False,
    ),
    Mutation(
        "a chore ends with its first step",
        "a chore goes on where it was",
        removed,
        (LEAVING,),
        quick=False,
    ),
    Mutation(
        "a scan goes on with the cursor of a server that is gone",
        "a chore begins its scan anew on another server",
        never,
        (f"{RESTARTED}test_a_prefix_brings_all_its_topics{OWN}",),
        quick=False,
    ),
    Mutation(
        "a look at shelved agents goes on with the cursor of a server that is gone",
        "a look at shelved agents begins anew on another server",
        removed,
        (f"{RESTARTED}test_all_agents_go_on_that_a_pause_had_put_aside{OWN}",),
        quick=False,
    ),
    Mutation(
        "a consumer with much pending is left behind",
        "a consumer with much pending goes later",
        becomes("end_consumer(agent_type, suffix, worker)"),
        (LEAVING,),
        quick=False,
    ),
    Mutation(
        "a page without anything pending is gone through for ever",
        "a consumer with much pending goes later",
        when("not is_gone or room_for_chores() <= 0"),
        (f"{PORTIONS}test_a_worker_ends_whose_type_left_more_topics_than_a_portion{ON}",),
        quick=False,
    ),
    Mutation(
        "a prefix that ended goes on bringing topics",
        "a prefix that ended brings no more topics",
        never,
        (f"{PORTIONS}test_a_prefix_that_ends_between_two_portions_brings_no_more_topics{ON}",),
        quick=False,
    ),
    Mutation(
        "a consumer goes with what it has pending",
        "a consumer with more pending stays",
        never,
        (LEAVING,),
        quick=False,
    ),
    Mutation(
        "a call does all chores that it begins",
        "many chores of one call are done in several",
        always,
        (LEAVING_MANY,),
        quick=False,
    ),
    Mutation(
        "a chore for which there is no room is forgotten",
        "what a step has no room for is a chore of its own",
        never,
        (ADOPTING,),
    ),
    Mutation(
        "a turn gives all parked entries that a worker wants",
        "a turn gives a part of many parked entries",
        becomes("local most = count"),
        (f"{PORTIONS}test_what_is_parked_behind_many_agents_is_given_in_portions{ON}",),
        quick=False,
    ),
    Mutation(
        "drafts are settled at once, however many",
        "many drafts are settled in portions",
        becomes("local most = tonumber(left)"),
        (DRAFTS,),
        quick=False,
    ),
    Mutation(
        "drafts for which a call has no room stay",
        "drafts that a call has no room for go later",
        removed,
        (DRAFTS,),
    ),
    Mutation(
        "what is taken while its group is mended is not pending",
        "what is taken is pending, also while its group is being mended",
        with_part("'FORCE', ", ""),
        (ADOPTING,),
    ),
    Mutation(
        "what is not adopted yet is trimmed",
        "a stream is not trimmed while its group adopts what is pending",
        never,
        (ADOPTING,),
        quick=False,
    ),
    Mutation(
        "long names reach workers",
        "an entry with a long name reaches no worker",
        never,
        ("contract/test_junk.py::test_junk_is_a_dead_letter_and_what_follows_is_delivered",),
        quick=False,
    ),
    Mutation(
        "a time is taken for a delay",
        "a time of the clock is no delay",
        becomes("due = due ~= 0 and now() + math.abs(due) or 0"),
        (f"{PUBLISH}test_a_time_in_the_past_is_now{ON}",),
        quick=False,
    ),
    Mutation(
        "a topic is forgotten with what it holds",
        "a topic with unhandled messages is not forgotten",
        when("last >= before"),
        (FORGETTING,),
    ),
    Mutation(
        "a topic with a name is forgotten",
        "a topic that was subscribed to by its name is not forgotten",
        never,
        (FORGETTING,),
        quick=False,
    ),
    Mutation(
        "any namespace is thrown away",
        "only a throw-away namespace is removed",
        when("True"),
        (f"contract/test_throwaway.py::test_what_a_dead_process_left_is_removed{ON}",),
        quick=False,
    ),
    Mutation(
        "a budget is exceeded",
        "a request that a budget might not cover is not made",
        never,
        (f"{LEDGER}test_requests_at_once_hold_no_more_than_there_is{ON}",),
    ),
    Mutation(
        "a request begins without a hold where there is a limit",
        "where there is a limit, nothing is used that was not set aside",
        never,
        (f"{LEDGER}test_what_begins_without_a_hold_begins_in_no_scope_that_has_a_limit{ON}",),
        quick=False,
    ),
    Mutation(
        "what a request used is counted again",
        "what a request used is counted once",
        always,
        (f"{LEDGER}test_what_is_settled_twice_is_counted_once{ON}",),
    ),
    Mutation(
        "what a dead worker held ends its message",
        "what a worker held that died does not stand in the way of its message",
        never,
        (f"{LEDGER}test_what_a_dead_worker_held_does_not_stand_in_the_way_of_its_message{ON}",),
        quick=False,
    ),
    Mutation(
        "what a dead worker held counts against what comes after its message",
        "nor in the way of what comes after its message",
        never,
        (f"{LEDGER}test_what_a_dead_worker_held_is_given_back_when_its_message_is_handled_again{ON}",),
        quick=False,
    ),
    Mutation(
        "a request counts for a minute from the beginning of its second",
        "a slice counts until the last request in it is out of the window",
        with_part("slice + 1", "slice - 2"),
        (
            f"{WINDOWS}test_a_request_counts_until_it_is_out_of_the_window_wherever_in_its_second_it_began{ON}",
        ),
        quick=False,
    ),
    Mutation(
        "a request that never fits waits for ever",
        "what no window has room for is not waited for",
        never,
        (f"{WINDOWS}test_what_never_fits_is_not_waited_for{ON}",),
    ),
    Mutation(
        "requests begin for which a window has no room",
        "what a window has no room for does not begin",
        always,
        (f"{WINDOWS}test_requests_at_once_begin_only_as_many_as_there_may_be{ON}",),
    ),
    Mutation(
        "a request is in its windows twice when an answer was lost",
        "a request that asks again, because an answer was lost, is in its windows once",
        never,
        (f"{WINDOWS}test_a_request_that_asks_again_because_an_answer_was_lost_is_counted_once{ON}",),
        quick=False,
    ),
    Mutation(
        "what a request did not need is not given back",
        "what a request did not need is given back once",
        never,
        (f"{WINDOWS}test_what_a_request_did_not_need_is_given_back_once{ON}",),
        quick=False,
    ),
    Mutation(
        "a process that stood still makes a request whose time is over",
        "a request is made at once when there is room, or not at all",
        always,
        (f"{ADMISSION}test_a_process_that_stood_still_behind_the_answer_asks_again",),
        quick=False,
    ),
    Mutation(
        "attempts that are made again are no requests",
        "an attempt that is made again is a request like the first",
        never,
        (f"{ADMISSION}test_an_attempt_that_finds_no_room_is_not_made",),
        quick=False,
    ),
    Mutation(
        "a message that waits for tomorrow is given up after ten minutes",
        "what ends for sure is waited for",
        never,
        ("unit/broker/test_retry.py::test_what_ends_for_sure_is_waited_for_however_long_it_takes",),
        quick=False,
    ),
    Mutation(
        "each attempt pays again, for ever",
        "what each attempt would pay for again is not waited for without end",
        becomes("return self.every > 0"),
        (f"{ADMISSION}test_held_errors_of_windows_end_for_sure",),
        quick=False,
    ),
)
