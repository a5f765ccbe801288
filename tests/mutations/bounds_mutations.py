"""Ways to break what keeps one key of the wrong type, or one long list, from stopping everything."""

from __future__ import annotations

from typing import Final

from .change import always, becomes, never, removed, with_part
from .mutation import ON, Mutation

WRONG_TYPES = "contract/test_wrong_types.py::"
GOES_ON = f"{WRONG_TYPES}test_what_a_broken_key_does_not_concern_goes_on[{{backend}}-"
BOUNDS = "contract/test_bounds.py::"
JUNK = "contract/test_junk_in_books.py::"
BESIDE = f"{JUNK}test_work_goes_on_beside_junk_in_the_books[{{backend}}-"
BELL_DEATHS = "contract/test_bell_deaths.py::"
PORTION = "unit/broker/consumer/test_portion.py::"

BOUNDS_MUTATIONS: Final = (
    Mutation(
        "a worker goes on without its books",
        "a worker without books takes nothing",
        becomes("turn.is_bookless = false"),
        (f"{WRONG_TYPES}test_a_worker_takes_nothing_that_its_books_do_not_say{ON}",),
    ),
    Mutation(
        "a handler runs with a default state in place of one that can't be read",
        "a handler does not run without its state",
        never,
        (f"{WRONG_TYPES}test_a_message_whose_state_can_not_be_read_is_not_handled{ON}",),
    ),
    Mutation(
        "a commit that can't be written ends the turn",
        "a commit that can't be written takes no other with it",
        with_part("pcall(effects.write, turn, i, mode)", "true, effects.write(turn, i, mode)"),
        (f"{GOES_ON}state:-string]",),
    ),
    Mutation(
        "what can't be buried is dropped",
        "what can't be buried comes back",
        removed,
        (f"{WRONG_TYPES}test_what_can_not_be_buried_either_is_not_lost{ON}",),
        quick=False,
    ),
    Mutation(
        "agents are taken although nobody knows who runs them",
        "nothing is taken without books",
        becomes("known = true"),
        (f"{WRONG_TYPES}test_no_agent_is_given_away_while_nobody_knows_who_runs_it{ON}",),
        quick=False,
    ),
    Mutation(
        "a message is added although it may be there",
        "what may have been added is not added",
        removed,
        (f"{WRONG_TYPES}test_what_may_be_a_duplicate_is_refused{ON}",),
        quick=False,
    ),
    Mutation(
        "a turn walks a whole list",
        "a turn looks at a part of a long list",
        with_part("math.min(length, MOST_LOOKS)", "length"),
        (f"{BOUNDS}test_a_turn_puts_aside_a_part_of_many_paused_agents_and_asks_for_another{ON}",),
        quick=False,
    ),
    Mutation(
        "an old worker takes what it does not know",
        "a worker takes only what it knows",
        with_part("is_known(turn, line)", "true"),
        (f"{BOUNDS}test_a_worker_that_knows_takes_them_a_portion_at_a_time_and_in_order{ON}",),
        quick=False,
    ),
    Mutation(
        "suspects are taken beside the rate limit",
        "a suspect counts in the rate",
        never,
        (f"{BOUNDS}test_a_suspect_waits_for_its_rate{ON}",),
        quick=False,
    ),
    Mutation(
        "a turn carries everything at once",
        "a turn carries no more than passes",
        never,
        (f"{PORTION}test_what_does_not_pass_in_time_passes_in_smaller_portions",),
    ),
    Mutation(
        "a turn ends whatever was recorded",
        "a turn keeps the server from others for a few ms only",
        never,
        (f"{PORTION}test_a_turn_ends_what_was_recorded_for_a_few_messages_only",),
        quick=False,
    ),
    Mutation(
        "what did not pass is sent again as it was",
        "after a lost turn less is sent",
        removed,
        (f"{PORTION}test_what_does_not_pass_in_time_passes_in_smaller_portions",),
        quick=False,
    ),
    Mutation(
        "what a command can't do with a value ends the call",
        "a value that a command can't use is like a key of another kind",
        with_part("'would overflow', ", ""),
        (f"{BESIDE}counter]",),
    ),
    Mutation(
        "a timer without a key stops all workers",
        "a timer that nobody can read stops no worker",
        always,
        (f"{BESIDE}timer without a key]",),
        quick=False,
    ),
    Mutation(
        "what is no reference stops all workers",
        "what is no reference stops no worker",
        becomes("return suffix, id"),
        (f"{BESIDE}parked]", f"{BESIDE}read ahead]"),
        quick=False,
    ),
    Mutation(
        "a worker whose books have junk in them can't be ended",
        "what a person added to a worker's books keeps nobody from ending it",
        becomes("return agent_type, ref"),
        (f"{BESIDE}held]",),
        quick=False,
    ),
    Mutation(
        "a pulse that can't be read stops all beats",
        "a pulse that is no number is none",
        becomes(
            "local last, patience, since = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)"
        ),
        (f"{BESIDE}pulse]",),
        quick=False,
    ),
    Mutation(
        "a worker whose last call can't be read goes on",
        "a worker whose last call is no number begins anew",
        never,
        (f"{BESIDE}call]",),
        quick=False,
    ),
    Mutation(
        "a chore that can't be done is tried for ever",
        "a chore that can't be done stops no beat",
        removed,
        (f"{BESIDE}chore]",),
        quick=False,
    ),
    Mutation(
        "a state without a version is read",
        "a state whose version is no number is not read",
        never,
        (f"{JUNK}test_a_state_whose_version_is_no_number_is_like_one_that_can_not_be_read{ON}",),
        quick=False,
    ),
    Mutation(
        "who is only said to wait is given to a second worker",
        "who is only said to wait is not taken for one that goes on",
        never,
        (f"{JUNK}test_who_is_only_said_to_wait_and_runs_is_given_to_nobody_else{ON}",),
        quick=False,
    ),
    Mutation(
        "a worker that stood still before its bell is blamed for what it brought",
        "what a bell brought is not known to have been heard",
        with_part(", 'brought', ARGV.number", ""),
        (f"{BELL_DEATHS}test_who_may_have_stood_still_since_before_its_bell_has_begun_nothing{ON}",),
        quick=False,
    ),
    Mutation(
        "a suspect comes with a bell",
        "a suspect does not come with a bell",
        never,
        (f"{BELL_DEATHS}test_who_may_have_stood_still_since_before_its_bell_has_begun_nothing{ON}",),
        quick=False,
    ),
)
