"""Ways to break the Lua functions: subscriptions that end and begin again, trimming beside them, pauses."""

from __future__ import annotations

from typing import Final

from .change import always, becomes, never, removed, with_part
from .mutation import ON, PAUSING, PUBLISH, SUBSCRIBING, Mutation

RETYPING: Final = "contract/test_retyping.py::"

OF_SUBSCRIPTIONS: Final = (
    Mutation(
        "a worker joins with a type that is half renamed",
        "no worker joins with a type that is being renamed",
        becomes("local refused = nil"),
        (f"{RETYPING}test_it_may_be_interrupted_anywhere{ON}",),
        quick=False,
    ),
    Mutation(
        "what a renamed type has in hand is trimmed",
        "what a renamed type has in hand is not trimmed",
        removed,
        (f"{RETYPING}test_everything_goes_on_under_the_new_name{ON}",),
        quick=False,
    ),
    Mutation(
        "a large body is left behind",
        "a large body stays with its renamed place",
        removed,
        (f"{RETYPING}test_large_bodies_go_with_the_type{ON}",),
        quick=False,
    ),
    Mutation(
        "a group goes with what it has in hand",
        "a group stays while something of it is in hand",
        never,
        (
            f"{SUBSCRIBING}test_what_is_parked_when_a_subscription_ends_is_handled_and_then_the_group_goes{ON}",
        ),
    ),
    Mutation(
        "a group that went is missed",
        "a group that went is not missed",
        removed,
        (
            f"{SUBSCRIBING}test_what_is_parked_when_a_subscription_ends_is_handled_and_then_the_group_goes{ON}",
        ),
        quick=False,
    ),
    Mutation(
        "what a type that left never reads is kept",
        "a type that left does not keep what it never reads",
        never,
        (f"{SUBSCRIBING}test_what_a_type_that_left_never_reads_is_trimmed{ON}",),
        quick=False,
    ),
    Mutation(
        "a wrong count of unread entries stays",
        "what was handled before a crash of the server is not unread",
        never,
        (f"contract/test_unread.py::test_a_beat_sets_the_count_right{ON}",),
        quick=False,
    ),
    Mutation(
        "publishers wait for a type that left",
        "a type that left keeps nobody waiting",
        becomes("local count = unhandled(suffix, group, most)"),
        (f"{SUBSCRIBING}test_publishers_do_not_wait_for_a_type_that_left{ON}",),
        quick=False,
    ),
    Mutation(
        "a topic that is new in a batch is not made known",
        "a topic that nobody takes is asked for when something is added to it",
        always,
        (f"{PUBLISH}test_a_batch_for_many_topics_reaches_those_that_are_new_as_well{ON}",),
        quick=False,
    ),
    Mutation(
        "a topic without readers loses what is in hand",
        "a topic without readers keeps what is still in hand",
        always,
        (f"{SUBSCRIBING}test_a_topic_that_nobody_reads_any_more_keeps_what_is_in_hand{ON}",),
        quick=False,
    ),
    Mutation(
        "the bytes of what is in hand go",
        "a type that left keeps the bytes of what it has in hand",
        never,
        (f"{SUBSCRIBING}test_the_bytes_of_what_is_in_hand_stay{ON}",),
        quick=False,
    ),
    Mutation(
        "trimming goes on without a group",
        "nothing is trimmed while a group is missing",
        never,
        (f"{SUBSCRIBING}test_what_was_parked_by_a_group_that_vanished_is_not_trimmed{ON}",),
    ),
    Mutation(
        "where a group began is forgotten",
        "where a group begins is remembered",
        removed,
        (f"{SUBSCRIBING}test_a_group_that_vanishes_before_it_is_given_anything_begins_where_it_began{ON}",),
        quick=False,
    ),
    Mutation(
        "who subscribes again begins anew",
        "who subscribes again goes on where it was",
        becomes("if start == '' then start = nil end"),
        (f"{SUBSCRIBING}test_a_later_type_that_never_read_anything_goes_on_where_it_began{ON}",),
    ),
    Mutation(
        "an inbox begins at its first entry again",
        "an inbox goes on where it was",
        with_part("cursor or '0'", "'0'"),
        (f"{SUBSCRIBING}test_an_inbox_that_lost_its_group_is_not_read_again_from_its_first_entry{ON}",),
        quick=False,
    ),
    Mutation(
        "a topic ends although a prefix brings it",
        "a topic stays while a prefix brings it",
        never,
        (f"{SUBSCRIBING}test_a_topic_stays_while_another_prefix_of_the_type_brings_it{ON}",),
        quick=False,
    ),
)

OF_PAUSES: Final = (
    Mutation(
        "a paused topic is overtaken",
        "nothing overtakes what is paused",
        removed,
        (f"{PAUSING}test_what_came_later_does_not_overtake_a_paused_topic{ON}",),
    ),
    Mutation(
        "what is paused comes after a gap",
        "an entry that is gone lets nothing paused through",
        never,
        (f"{PAUSING}test_what_is_handed_over_stops_before_what_is_paused{ON}",),
        quick=False,
    ),
    Mutation(
        "only some of what was put aside goes on",
        "all that was put aside goes on",
        removed,
        (f"{PAUSING}test_many_agents_that_were_put_aside_all_go_on_a_part_of_them_at_a_time{ON}",),
        quick=False,
    ),
    Mutation(
        "who left a topic stays put aside",
        "who left a topic goes on with it, too",
        never,
        (f"{PAUSING}test_who_left_a_paused_topic_goes_on_when_it_is_resumed{ON}",),
        quick=False,
    ),
)

SUBSCRIPTION_MUTATIONS: Final = (*OF_SUBSCRIPTIONS, *OF_PAUSES)
