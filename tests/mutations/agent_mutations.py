"""Ways to break what keeps agents from asking, paying or doing something twice."""

from __future__ import annotations

from typing import Final

from .change import becomes, never
from .mutation import Mutation

ELSEWHERE = "integration/a2a_door/test_agent.py::"
HANDLERS = "unit/agents/test_in_handlers.py::"
MAKERS = "contract/test_makers.py::"

AGENT_MUTATIONS: Final = (
    Mutation(
        "the answer of a person is not recorded",
        "a person is asked once, whatever becomes of this process",
        becomes("step = None"),
        (f"{HANDLERS}test_a_person_is_asked_once",),
    ),
    Mutation(
        "the result of code is not recorded",
        "code that has run is not run again",
        becomes("step = None"),
        (f"{HANDLERS}test_code_is_approved_and_run_once",),
    ),
    Mutation(
        "an approval is not recorded",
        "an approval is asked for once",
        becomes("step = None"),
        (
            f"{HANDLERS}test_code_is_approved_and_run_once",
            f"{HANDLERS}test_code_that_was_refused_is_refused_again_without_a_question",
        ),
    ),
    Mutation(
        "the task of an agent elsewhere is not recorded",
        "an agent elsewhere is given its task once",
        becomes("step = None"),
        (f"{ELSEWHERE}test_a_task_is_begun_once_and_waited_for_by_whoever_lives",),
        quick=False,
    ),
    Mutation(
        "an agent elsewhere is asked wherever its card says",
        "what is meant for an agent elsewhere goes to its own host",
        becomes("here = list(card.supported_interfaces)"),
        (f"{ELSEWHERE}test_a_card_leads_to_no_other_host",),
    ),
    Mutation(
        "a config names the server that gets conversations and keys",
        "a config from elsewhere sends neither keys nor conversations to an address of its own",
        never,
        (f"{MAKERS}test_a_dump_has_no_key_and_goes_to_no_strange_server[Anthropic]",),
    ),
    Mutation(
        "a package fetches what a message names",
        "nothing that a message names is fetched by this process",
        never,
        (f"{MAKERS}test_images_that_an_address_names_are_not_fetched_here[Gemini]",),
    ),
    Mutation(
        "a handoff is not created again in the next attempt",
        "what changes the agent itself is done again in every attempt",
        becomes("pass"),
        (
            "unit/dispatch/test_on_the_bus.py::test_an_attempt_that_comes_again_creates_the_handoff_again_and_asks_nobody_twice",
        ),
    ),
)
