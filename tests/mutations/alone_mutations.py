"""Ways to break what the server does of messages that come one at a time."""

from __future__ import annotations

from typing import Final

from .change import never, removed, when, with_part
from .mutation import ON, Mutation

ALONE: Final = "contract/test_alone.py::"
HELD: Final = (f"{ALONE}test_what_comes_with_a_bell_is_held_and_no_more_when_it_is_committed{ON}",)

ALONE_MUTATIONS: Final = (
    Mutation(
        "a new topic is not made known by a lone message",
        "a topic that nobody takes is not for a message that comes alone",
        never,
        (f"{ALONE}test_a_new_topic_is_made_known_by_a_message_that_comes_alone{ON}",),
    ),
    Mutation(
        "a busy agent is given with a bell",
        "what comes alone is given where nothing is out of the ordinary",
        never,
        (f"{ALONE}test_an_agent_that_another_worker_runs_does_not_come_with_a_bell{ON}",),
    ),
    Mutation(
        "what a bell had no room for is forgotten",
        "a stream that may hold more after one entry is read on",
        when("not key"),
        (f"{ALONE}test_what_a_bell_brought_no_room_for_comes_with_the_next_turn{ON}",),
        quick=False,
    ),
    Mutation(
        "what was read with a bell is not given",
        "what was read is given, in whatever way",
        removed,
        (f"{ALONE}test_what_comes_together_with_a_bell_is_all_given{ON}",),
    ),
    Mutation(
        "an agent that came alone is not busy",
        "an agent whose message came alone is busy",
        removed,
        HELD,
    ),
    Mutation(
        "a message that came alone is not held",
        "a message that came alone is held",
        removed,
        HELD,
        quick=False,
    ),
    Mutation(
        "a lone commit lets go of an agent with something behind it",
        "a commit is written alone where nothing is out of the ordinary",
        when("ARGV.count ~= '1'"),
        (f"{ALONE}test_an_agent_that_another_worker_runs_does_not_come_with_a_bell{ON}",),
    ),
    Mutation(
        "what is not held is committed alone",
        "only what is held is committed alone",
        never,
        (f"{ALONE}test_what_is_not_held_is_not_committed_alone{ON}",),
    ),
    Mutation(
        "a lone commit does not acknowledge",
        "a commit that comes alone acknowledges",
        removed,
        HELD,
        quick=False,
    ),
    Mutation(
        "a lone commit drops its reply",
        "a commit that comes alone sends its reply",
        never,
        HELD,
        quick=False,
    ),
    Mutation(
        "an agent is busy for ever after a lone commit",
        "an agent is free after a commit that comes alone",
        removed,
        HELD,
        quick=False,
    ),
    Mutation(
        "replies are kept for ever",
        "a stream of replies does not stay for ever",
        removed,
        (f"{ALONE}test_a_stream_of_replies_always_has_an_end{ON}",),
        quick=False,
    ),
    Mutation(
        "replies that come after the end of their stream are kept for ever",
        "a stream of replies that is gone is made as a new one",
        with_part(" 'NOMKSTREAM',", ""),
        (f"{ALONE}test_a_stream_of_replies_always_has_an_end{ON}",),
    ),
)
