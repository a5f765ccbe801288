"""Ways to break the Lua functions: commits, publishing, timers, trimming."""

from __future__ import annotations

from typing import Final

from .change import always, becomes, ignored, never, removed, twice, when, with_part
from .mutation import (
    COMMIT,
    FENCES,
    FENCING,
    LOSS,
    ON,
    PUBLISH,
    REAPING,
    TRIMMING,
    WORLD,
    Mutation,
)

JUNK: Final = "contract/test_junk.py::test_junk_is_a_dead_letter_and_what_follows_is_delivered["

OF_COMMITS: Final = (
    Mutation(
        "acknowledged and not done: state dropped",
        "a commit writes the state",
        removed,
        (f"{COMMIT}test_everything_of_a_commit_is_there_afterwards{ON}",),
    ),
    Mutation(
        "acknowledged and not done: outgoing dropped",
        "a commit sends its messages",
        never,
        (f"{COMMIT}test_everything_of_a_commit_is_there_afterwards{ON}",),
    ),
    Mutation(
        "acknowledged and not done: reply dropped",
        "a commit sends its reply",
        removed,
        (f"{COMMIT}test_everything_of_a_commit_is_there_afterwards{ON}",),
        quick=False,
    ),
    Mutation(
        "done and not acknowledged",
        "a commit acknowledges",
        removed,
        (f"{FENCING}test_a_lease_that_ended_holds_until_somebody_else_takes_over{ON}",),
        quick=False,
    ),
    Mutation(
        "a worker keeps what it finished",
        "what is committed is held no more",
        removed,
        (f"{FENCING}test_a_turn_that_was_carried_out_and_not_answered_is_found_by_resync{ON}",),
        quick=False,
    ),
    Mutation(
        "a retry is acknowledged",
        "what comes back is not acknowledged",
        always,
        (f"{TRIMMING}test_what_is_held_parked_or_backing_off_stays_and_the_rest_goes{ON}",),
    ),
    Mutation(
        "commits of several modes are alike",
        "commits of several modes are looked at one by one",
        when("agent_type ~= first_type"),
        (f"{COMMIT}test_commits_of_several_streams_end_as_each_says{ON}",),
    ),
    Mutation(
        "commits of several types are alike",
        "commits of several modes are looked at one by one",
        when("its_mode ~= mode_of_all"),
        (f"{COMMIT}test_commits_of_two_types_that_are_alike_free_the_agents_of_both{ON}",),
    ),
    Mutation(
        "an agent that goes back is free",
        "an agent that goes back is not free",
        when("commits.mode_of_all"),
        (f"{COMMIT}test_a_key_that_backs_off_waits_and_others_go_on{ON}",),
    ),
    Mutation(
        "a retry counts no attempt",
        "a retry counts its attempt",
        becomes("attempts = tonumber(attempts) - 1\n{statement}"),
        (f"{COMMIT}test_a_retry_comes_back_first_and_counts{ON}",),
        quick=False,
    ),
    Mutation(
        "a retry does not wait",
        "a retry waits",
        never,
        (f"{COMMIT}test_a_key_that_backs_off_waits_and_others_go_on{ON}",),
        quick=False,
    ),
    Mutation(
        "a release counts an attempt",
        "a release counts no attempt",
        becomes("count_crash(turn.commits.group[i].type, ref_of(turn, i))\n{statement}"),
        (f"{COMMIT}test_released_entries_go_to_others_at_once_in_order_without_an_attempt{ON}",),
    ),
    Mutation(
        "attempts are kept after the commit",
        "attempts are forgotten with the commit",
        removed,
        (f"{COMMIT}test_a_retry_comes_back_first_and_counts{ON}",),
        quick=False,
    ),
    Mutation(
        "a dead letter is not kept",
        "a dead letter is kept",
        removed,
        (f"{COMMIT}test_a_dead_letter_says_everything{ON}",),
        quick=False,
    ),
    Mutation(
        "once not cleared",
        "what ctx.once recorded goes with its message",
        removed,
        (f"{WORLD}test_records_go_with_their_message{ON}",),
    ),
    Mutation(
        "a cancelled request is committed",
        "a cancelled request commits nothing",
        becomes("read(turn)"),
        (f"{WORLD}test_nothing_of_a_cancelled_request_is_written{ON}",),
    ),
    Mutation(
        "an entry that is too large reaches a worker",
        "an entry that is too large reaches no worker",
        never,
        (
            "contract/test_junk.py::test_junk_is_a_dead_letter_and_what_follows_is_delivered[{backend}-too large]",
        ),
        quick=False,
    ),
    Mutation(
        "an entry that is too large is plain",
        "an entry that is too long is not plain",
        when("names > MOST_NAME"),
        (f"{JUNK}{{backend}}-too large, as a publisher stores it]",),
        quick=False,
    ),
    Mutation(
        "an entry with a long name is plain",
        "an entry that is too long is not plain",
        when("#flat[width] > max_body"),
        (f"{JUNK}{{backend}}-a long key, as a publisher stores it]",),
        quick=False,
    ),
    Mutation(
        "an entry with a long head is plain",
        "an entry with a head that is too long is not plain",
        never,
        (f"{JUNK}{{backend}}-a long head, as a publisher stores it]",),
        quick=False,
    ),
)

OF_PUBLISHING: Final = (
    Mutation(
        "dedupe off",
        "an idempotency id is accepted once",
        never,
        (f"{PUBLISH}test_an_idempotency_id_is_added_once{ON}",),
    ),
    Mutation(
        "a short window ends the ids of others",
        "ids stay as long as each of them is remembered",
        when("true"),
        (f"{PUBLISH}test_processes_with_different_windows_know_each_others_ids{ON}",),
        quick=False,
    ),
    Mutation(
        "a delayed message takes the place of one with its id",
        "a delayed message takes the place of no other",
        becomes("local name = id"),
        (f"{PUBLISH}test_delayed_messages_with_one_id_come_both{ON}",),
        quick=False,
    ),
    Mutation(
        "a zombie's handler sends and records",
        "a handler whose message is not its worker's any more writes nothing",
        becomes("return false"),
        (
            f"{FENCES}test_messages_of_a_handler_are_refused_and_those_beside_them_are_not[{{backend}}-reaped]",
            f"{FENCES}test_records_of_a_handler_are_refused_and_not_found[{{backend}}-committed]",
        ),
    ),
    Mutation(
        "who asks again takes the place of who waits",
        "who asks again takes nobody's place",
        becomes("local to = process"),
        (f"{COMMIT}test_a_reply_to_a_recorded_call_goes_to_all_who_ask{ON}",),
        quick=False,
    ),
    Mutation(
        "a buried request is not answered",
        "a request that is buried is answered",
        removed,
        ("contract/test_buried_requests.py::test_whose_process_died_each_time[{backend}-False]",),
        quick=False,
    ),
    Mutation(
        "what a handler sends at once is sent by every attempt",
        "what a handler sends at once is sent by one attempt",
        ignored,
        (f"{WORLD}test_records_go_with_their_message{ON}",),
        quick=False,
    ),
    Mutation(
        "a batch that is sent again is added again",
        "a batch is added once",
        removed,
        (f"{PUBLISH}test_a_batch_that_is_sent_again_adds_nothing{ON}",),
    ),
    Mutation(
        "a duplicate is added",
        "a duplicate is not added",
        removed,
        (f"{PUBLISH}test_an_idempotency_id_is_added_once{ON}",),
        quick=False,
    ),
    Mutation(
        "a timer fires twice",
        "a timer fires once",
        twice,
        (f"{PUBLISH}test_a_delayed_message_comes_when_it_is_due{ON}",),
    ),
    Mutation(
        "a timer that fired stays",
        "a timer that fired is gone",
        removed,
        (f"{PUBLISH}test_a_delayed_message_comes_when_it_is_due{ON}",),
        quick=False,
    ),
    Mutation(
        "what is due later leaves at once",
        "what is due later waits",
        never,
        (f"{PUBLISH}test_a_delayed_message_comes_when_it_is_due{ON}",),
        quick=False,
    ),
    Mutation(
        "a letter is replayed twice",
        "a letter is replayed once",
        removed,
        (f"{REAPING}test_replaying_a_letter_twice_sends_it_once{ON}",),
    ),
    Mutation(
        "trimming takes what is pending",
        "trimming spares what is pending",
        removed,
        (f"{TRIMMING}test_what_is_held_parked_or_backing_off_stays_and_the_rest_goes{ON}",),
    ),
    Mutation(
        "trimming takes what a slower group has not read",
        "trimming spares what the slowest group has not read",
        with_part("<", ">"),
        (f"{TRIMMING}test_what_a_slower_group_has_not_read_stays{ON}",),
        quick=False,
    ),
    Mutation(
        "the sweep takes what is pending",
        "the sweep spares what is pending",
        when("sortable(id) <= sortable(reach)"),
        (f"{TRIMMING}test_what_is_held_parked_or_backing_off_stays_and_the_rest_goes{ON}",),
        quick=False,
    ),
    Mutation(
        "a lost group begins at the end",
        "a lost group goes on where it was",
        with_part("cursor", "'$'"),
        (f"{LOSS}test_a_group_that_was_destroyed_goes_on_where_it_was{ON}",),
    ),
    Mutation(
        "a lost group begins at the first entry",
        "a lost group goes on where it was",
        with_part("cursor", "'0'"),
        (f"{LOSS}test_a_group_that_was_destroyed_goes_on_where_it_was{ON}",),
        quick=False,
    ),
    Mutation(
        "a lost group forgets what is pending",
        "a lost group adopts what was pending",
        removed,
        (f"{TRIMMING}test_entries_whose_group_came_back_are_not_trimmed_away{ON}",),
        quick=False,
    ),
)

COMMIT_MUTATIONS: Final = (*OF_COMMITS, *OF_PUBLISHING)
