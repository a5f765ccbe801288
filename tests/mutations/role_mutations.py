"""Ways to break what roles promise: who gets what, how often, and what is left of an act that failed."""

from __future__ import annotations

from typing import Final

from .change import becomes, never, removed, when
from .mutation import ON, Mutation

ROLES = "contract/test_roles.py::"
MESSAGE = "unit/roles/test_message.py::"
ROUTING = "unit/roles/test_routing.py::"

ROLE_MUTATIONS: Final = (
    Mutation(
        "data that name another class are read as any that is known",
        "data that name another class make nothing",
        becomes('cls = _known.get(data["type"], next(iter(_known.values())))'),
        (f"{MESSAGE}test_data_that_name_what_is_not_known_are_refused",),
    ),
    Mutation(
        "rounds have no end",
        "the number of rounds is a bound",
        becomes("return True"),
        (f"{ROUTING}test_whose_rounds_are_over_gets_nothing",),
    ),
    Mutation(
        "a message to nobody is sent",
        "who is not there is not written to",
        removed,
        (
            f"{ROUTING}test_nobody_is_written_to_who_is_not_there",
            f"{ROLES}test_a_message_to_nobody_is_refused_and_not_in_the_history{ON}",
        ),
    ),
    Mutation(
        "a circle without a bound goes on",
        "a circle without a bound of rounds ends",
        never,
        (f"{ROUTING}test_what_leads_to_several_messages",),
    ),
    Mutation(
        "a failed act leaves its traces in the role",
        "what a failed attempt left in the role is gone",
        removed,
        (f"{ROLES}test_who_fails_is_named_the_others_go_on_and_a_failed_act_leaves_nothing_behind{ON}",),
    ),
    Mutation(
        "what is heard together is heard as soon as one of it is there",
        "what is heard together is heard when all of it is there",
        never,
        (f"{ROLES}test_joined_subtasks_are_heard_once_in_each_round{ON}",),
    ),
    Mutation(
        "a message is answered to as often as it comes",
        "a message is answered to once",
        becomes("return False"),
        (f"{ROLES}test_a_message_that_comes_by_two_ways_is_answered_to_once{ON}",),
    ),
    Mutation(
        "one role takes the place of another",
        "no role takes the place of another",
        never,
        (f"{ROLES}test_two_roles_of_one_name_are_refused",),
    ),
    Mutation(
        "it does not wait for a person",
        "who waits for a person is not idle",
        when("False"),
        (f"{ROLES}test_a_person_answers_in_the_place_of_the_model_also_after_a_restart{ON}",),
    ),
    Mutation(
        "what was idle stays idle",
        "what was idle before something happened is not known to be so now",
        becomes("return not self._outbox and self._idle_at >= 0 and not self._has_ended"),
        (f"{ROLES}test_idle_is_never_true_as_long_as_something_is_left{ON}",),
    ),
    Mutation(
        "a budget that is no number limits nothing",
        "what is no number would limit nothing",
        never,
        (f"{ROLES}test_a_budget_that_limits_nothing_is_refused",),
    ),
    Mutation(
        "what was given up for want of money is sent again without it",
        "what was invested counts before anything is sent again, which may be handled at once",
        removed,
        (f"{ROLES}test_what_was_invested_is_there_before_anything_is_sent_again{ON}",),
    ),
    Mutation(
        "of what was given up only the first hundred is sent again",
        "all that was given up is sent again, however much it is",
        becomes("{statement}\nids = ids[:100]"),
        (f"{ROLES}test_however_many_were_given_up_all_are_taken_up_again{ON}",),
        quick=False,
    ),
)
