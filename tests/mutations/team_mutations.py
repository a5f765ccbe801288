"""Ways to break what keeps a team's conversation in one piece."""

from __future__ import annotations

from typing import Final

from .change import always, becomes, never, removed, when
from .mutation import ON, Mutation

APPROVAL = "unit/tools/test_approval.py::"
CHECKED = "unit/tools/test_checked_arguments.py::"
RUNNING = "unit/tools/test_running.py::"
TEAMS = "contract/test_teams.py::"
REQUESTS = "contract/test_model_requests.py::test_what_a_server_may_have_worked_on_is_not_asked_for_again_for_minutes"
MANUAL = "contract/test_team_manual.py::"
ORDERS = "integration/test_orders_away.py::test_a_run_that_is_aborted_is_cancelled"
GOES_ON = f"{TEAMS}test_a_conversation_goes_on_in_a_process_that_has_been_in_it_before{ON}"

TEAM_MUTATIONS: Final = (
    Mutation(
        "an answer that nobody waits for is heard",
        "a turn is heard once",
        when("speaking is None"),
        ("unit/teams/test_loop.py::test_an_answer_of_a_turn_that_is_over_is_not_heard",),
    ),
    Mutation(
        "an abort that its manager did not hear in time is forgotten",
        "a run that was cancelled while its manager was away does not go on",
        when("False"),
        (f"{ORDERS}[redis-before-SIGKILL]",),
        quick=False,
    ),
    Mutation(
        "a committed order reaches nobody",
        "members are interrupted and cancelled for what is committed",
        when("False"),
        (f"{ORDERS}[redis-order taken-SIGKILL]",),
        quick=False,
    ),
    Mutation(
        "a conversation has the key of who asks people in another one",
        "no conversation has the key of the agent that asks people for another one",
        when("False"),
        ("unit/teams/test_addresses.py::test_a_name_that_no_conversation_can_have[sea (asks)]",),
    ),
    Mutation(
        "an answer to another question lets a run go on",
        "only the answer that a run waits for lets it go on",
        when("run is None"),
        (f"{MANUAL}test_orders_reach_a_manager_that_asks{ON}",),
        quick=False,
    ),
    Mutation(
        "a strategy that is called again with an answer has chosen twice",
        "a strategy that asks is as it was before it chose",
        removed,
        (f"{MANUAL}test_a_strategy_chooses_once_although_it_is_called_again_with_the_answer{ON}",),
        quick=False,
    ),
    Mutation(
        "an outage ends a run",
        "an outage is waited for, and any other error ends the run",
        when("False"),
        (f"{TEAMS}test_an_outage_in_the_middle_of_a_choice_is_waited_for{ON}",),
    ),
    Mutation(
        "a server that works too long is asked again and again as if it were away",
        "what a server may have worked on uses up an attempt of the message",
        when("True"),
        (f"{REQUESTS}[{{backend}}-503, then a timeout]",),
        quick=False,
    ),
    Mutation(
        "a manager goes on from what it has in memory",
        "a manager goes on from what its last message left",
        when("self._loop is None"),
        (GOES_ON,),
    ),
    Mutation(
        "a member goes on from what it has in memory",
        "a member goes on from what its last turn left",
        when("self._agent is None"),
        (GOES_ON,),
    ),
    Mutation(
        "a member is told again what came with a turn that was called off",
        "what came with a turn that was called off is not heard twice",
        becomes("told = dict[int, int]()"),
        (f"contract/test_teams_attacked.py::test_what_a_cancelled_turn_heard_is_not_heard_again{ON}",),
    ),
    Mutation(
        "a fork that is asked for again is refused",
        "a conversation is forked once",
        when("False"),
        (f"contract/test_team_forks.py::test_the_same_order_again_changes_nothing{ON}",),
    ),
    Mutation(
        "a member that has forgotten is forked as if it had never known",
        "a member that does not know any more what it remembered is not taken for a new one",
        when("False"),
        (
            f"contract/test_team_forks.py::test_a_member_that_was_told_to_forget_is_forked_from_then_on_only{ON}",
        ),
    ),
    Mutation(
        "a fork goes on without what a member remembered",
        "a fork that is not whole does not go on",
        when("False"),
        (f"contract/test_team_forks.py::test_a_fork_whose_member_could_not_take_over_its_part_says_so{ON}",),
    ),
    Mutation(
        "a run has no limits",
        "a run's limits are there before its first request",
        removed,
        (f"contract/test_team_budgets.py::test_no_request_exceeds_the_tokens_and_what_was_said_is_kept{ON}",),
    ),
    Mutation(
        "a turn fails with any dead letter of its member",
        "a turn fails with its own dead letter only",
        when("speaking is not None"),
        (f"contract/test_teams_failing.py::test_a_dead_letter_of_another_turn_fails_nothing{ON}",),
    ),
    Mutation(
        "what a dead process has said counts",
        "what a dead process has said is void",
        when("False"),
        (
            "unit/teams/test_reading.py::test_another_attempt_makes_the_first_void",
            "unit/teams/test_reading.py::test_another_attempt_without_drafts_makes_the_first_void",
        ),
    ),
    Mutation(
        "a call is made although the rule that says who allows it has failed",
        "a call is not made where it is not known whether it has to be allowed",
        becomes("applies = False"),
        (f"{APPROVAL}test_where_the_function_fails_nothing_runs",),
    ),
    Mutation(
        "a call runs with the arguments of the model although a person wrote others",
        "what runs is what a person was shown, or wrote",
        becomes("return asked"),
        (f"{APPROVAL}test_edited_arguments_run_and_are_checked",),
    ),
    Mutation(
        "a tool is called past the person who has to allow it",
        "a tool whose calls have to be allowed is called by nobody who has not asked",
        never,
        (f"{APPROVAL}test_no_call_passes_beside_the_question",),
    ),
    Mutation(
        "a rule is asked about what the model wrote",
        "the rule is asked about what runs, and not about a text that the tool reads in another way",
        becomes("checked = CheckedArguments(*[asked.arguments or {}] * 3)"),
        (f"{CHECKED}test_the_rule_and_the_person_see_what_runs",),
    ),
    Mutation(
        "arguments that a person was shown are checked again",
        "what a person was shown runs, and is not checked a second time, which may make something else of it",
        never,
        (f"{CHECKED}test_the_rule_and_the_person_see_what_runs",),
    ),
    Mutation(
        "a ConversableAgent asks nobody",
        "a tool whose calls have to be allowed is called by no agent that has not asked",
        becomes("asked = call"),
        (f"{CHECKED}test_an_agent_runs_nothing_that_a_person_forbids",),
    ),
    Mutation(
        "guardrails judge what the model wrote",
        "guardrails judge what runs, and not a text that the tool reads in another way",
        becomes("checks = [one.check_call for one in self._guardrails]"),
        ("unit/agents/guardrails/test_guardrails.py::test_a_guardrail_judges_what_runs",),
    ),
    Mutation(
        "a call that an answer quotes is made",
        "a call that an answer quotes is not made",
        becomes("calls = tuple(one for tag in TAGGED.finditer(text) for one in _calls_in(tag[1], names))"),
        ("unit/models/openai/test_calls_in_text.py::test_text_that_is_no_call_stays_text",),
    ),
    Mutation(
        "a dump forgets that calls have to be allowed",
        "a tool whose calls have to be allowed is not dumped as one without",
        never,
        (f"{APPROVAL}test_a_dump_keeps_what_has_to_be_allowed",),
        quick=False,
    ),
    Mutation(
        "a dump of an assistant forgets that calls have to be allowed",
        "calls that have to be allowed are not dumped as calls that need not",
        never,
        ("unit/agents/assistant/test_config.py::test_what_a_person_has_to_allow_is_in_the_dump",),
        quick=False,
    ),
    Mutation(
        "a slip in the name of a tool lets its calls pass",
        "a slip in a name does not let calls pass that a person has to allow",
        never,
        ("unit/agents/assistant/test_settings.py::test_a_person_allows_calls_of_tools_that_there_are",),
        quick=False,
    ),
    Mutation(
        "a function asks a person in every attempt",
        "a function asks a person once, whatever becomes of this process",
        becomes("said = await ask()"),
        (f"{RUNNING}test_a_person_decides_about_an_unknown_outcome_after_each_crash",),
        quick=False,
    ),
    Mutation(
        "a question is shown with every attempt",
        "what several attempts have written is shown once",
        always,
        ("unit/teams/test_reading.py::test_a_question_is_shown_once_and_makes_nothing_void",),
    ),
)
