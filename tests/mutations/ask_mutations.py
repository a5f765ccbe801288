"""Ways to break questions, and handlers that wait for their answers."""

from __future__ import annotations

from typing import Final

from .change import always, becomes, never, removed, with_part
from .mutation import ON, Mutation

SERVER = "contract/test_suspending.py::"
RUNTIME = "contract/test_runtime_ask.py::"
GOES_ON = f"{RUNTIME}test_a_handler_asks_and_goes_on_with_the_answer{ON}"
KEEPS_PLACE = f"{SERVER}test_who_waits_keeps_its_place_and_goes_on_with_the_answer{ON}"
LISTS = f"{SERVER}test_an_open_question_is_in_the_lists_of_its_runs_and_of_its_key{ON}"
UNMET = f"{SERVER}test_a_question_that_nobody_waits_for_is_withdrawn"
HOWEVER = f"{RUNTIME}test_however_a_handler_takes_it_nothing_is_committed_before_the_answers"

OF_WAITING: Final = (
    Mutation(
        "what only an earlier attempt asked stays open",
        "what an earlier attempt recorded and asked goes with the commit",
        becomes("return False"),
        (f"{RUNTIME}test_an_attempt_that_asks_nothing_withdraws_what_an_earlier_one_asked{ON}",),
        quick=False,
    ),
    Mutation(
        "an answer wakes nobody",
        "who waits for an answer is woken by it",
        removed,
        (KEEPS_PLACE,),
    ),
    Mutation(
        "an answer between the question and the end of its handler is lost",
        "an answer that came before its handler waited is not lost",
        never,
        (f"{SERVER}test_an_answer_that_comes_before_the_handler_has_ended_is_not_lost{ON}",),
    ),
    Mutation(
        "a question is in the list of all and in no other",
        "a question is found by its run and by the key of its agent",
        becomes("call('ZADD', P .. 'inputs', next_place(), id)"),
        (LISTS,),
    ),
    Mutation(
        "a question that has ended stays in the lists of its runs",
        "a question that has ended is in no list",
        becomes("call('ZREM', P .. 'inputs', id)"),
        (LISTS,),
        quick=False,
    ),
    Mutation(
        "a reset waits for an answer",
        "a reset goes before an agent that waits for an answer",
        becomes("if is_idle or was_aside then make_ready(agent_type, key) end"),
        (f"{SERVER}test_a_reset_goes_first_and_the_message_runs_again{ON}",),
        quick=False,
    ),
    Mutation(
        "a reset that came before the wait waits for an answer",
        "a reset does not wait for an answer",
        never,
        (f"{SERVER}test_a_reset_that_comes_while_the_handler_ends_goes_first{ON}",),
        quick=False,
    ),
    Mutation(
        "what waits can't be cancelled",
        "a message that waits for an answer can be cancelled",
        never,
        (f"{SERVER}test_a_cancelled_message_is_given_to_a_worker_at_once{ON}",),
        quick=False,
    ),
    Mutation(
        "what was cancelled waits",
        "a message that was cancelled does not wait for an answer",
        never,
        (f"{SERVER}test_a_message_that_was_cancelled_while_its_handler_ended_does_not_wait{ON}",),
        quick=False,
    ),
    Mutation(
        "nothing ends a wait",
        "a wait ends when its question expires",
        never,
        (f"{SERVER}test_a_timer_wakes_who_waited_too_long{ON}",),
        quick=False,
    ),
    Mutation(
        "an agent whose wait is over is still said to wait",
        "who waits for an answer is woken when its time is over",
        becomes(
            "if call('HGET', P .. 'busy:' .. agent_type, key) == '' then make_ready(agent_type, key) end"
        ),
        (f"{SERVER}test_a_timer_wakes_who_waited_too_long{ON}",),
        quick=False,
    ),
    Mutation(
        "a wait is an attempt",
        "a wait uses up no attempt",
        with_part("delivery.attempt - 1", "delivery.attempt"),
        (KEEPS_PLACE,),
        quick=False,
    ),
    Mutation(
        "what waited looks as if it had never begun",
        "a message that waited for an answer is not too late",
        removed,
        (KEEPS_PLACE,),
        quick=False,
    ),
    Mutation(
        "what was recorded is gone after a day of waiting",
        "what was recorded outlasts a wait",
        removed,
        (f"{SERVER}test_what_was_recorded_outlasts_a_wait{ON}",),
    ),
    Mutation(
        "the reply to a request is gone after a day of waiting",
        "the replies to its requests outlast a wait",
        removed,
        (f"{SERVER}test_what_was_recorded_outlasts_a_wait{ON}",),
        quick=False,
    ),
)

OF_QUESTIONS: Final = (
    Mutation(
        "each attempt asks anew",
        "a question is asked once",
        always,
        (f"{SERVER}test_a_question_is_asked_once_however_often_its_handler_runs{ON}",),
    ),
    Mutation(
        "each attempt asks something else",
        "every attempt asks the same",
        with_part("self._message_id, agent", "repr(object()), agent"),
        (GOES_ON,),
        quick=False,
    ),
    Mutation(
        "a zombie asks",
        "a zombie asks nothing",
        removed,
        (f"{SERVER}test_a_worker_that_has_lost_the_message_asks_nothing{ON}",),
        quick=False,
    ),
    Mutation(
        "the last answer wins",
        "the first answer wins",
        always,
        (f"{SERVER}test_the_first_answer_wins{ON}",),
    ),
    Mutation(
        "a late answer is taken",
        "a question that expired is not answered any more",
        always,
        (f"{SERVER}test_a_question_that_expires_wakes_its_handler_and_is_not_answered_any_more{ON}",),
        quick=False,
    ),
    Mutation(
        "a question stays open when its message is over",
        "a question that nobody waits for is withdrawn",
        removed,
        (f"{UNMET}[{{backend}}-commit]", f"{UNMET}[{{backend}}-dead letter]"),
        quick=False,
    ),
    Mutation(
        "a question that has ended stays for ever",
        "a question that has ended has a lifetime",
        removed,
        (f"{UNMET}[{{backend}}-commit]",),
        quick=False,
    ),
    Mutation(
        "the record of a dead letter stays for ever",
        "the record of a dead letter has a lifetime",
        removed,
        (f"{UNMET}[{{backend}}-dead letter]",),
        quick=False,
    ),
    Mutation(
        "an answer is not checked",
        "an answer is checked when it is given",
        becomes('problem = ""'),
        (f"{RUNTIME}test_an_answer_is_checked_before_it_is_sent{ON}",),
        quick=False,
    ),
    Mutation(
        "a repair withdraws every question",
        "a question is left alone whose message is still to be handled",
        never,
        (
            f"contract/test_repair_questions.py::test_a_question_of_a_message_that_is_handled_or_waits_is_left_alone{ON}",
        ),
        quick=False,
    ),
    Mutation(
        "a schema names an address, and it is fetched",
        "nothing is fetched for the check of an answer",
        with_part(", registry=Registry()", ""),
        ("unit/test_answer_check.py::test_nothing_is_fetched",),
        quick=False,
    ),
)

OF_HANDLERS: Final = (
    Mutation(
        "a handler that catches everything commits without an answer",
        "a handler whose question is open commits nothing",
        becomes("asked: dict[str, int | None] = {}"),
        (f"{HOWEVER}[{{backend}}-caught]",),
    ),
    Mutation(
        "to wait is a failure",
        "what a handler raises while it waits for an answer is no failure",
        becomes("return None"),
        (GOES_ON,),
        quick=False,
    ),
    Mutation(
        "a step that could not ask is recorded",
        "what a question cut off is not recorded",
        removed,
        (f"{HOWEVER}[{{backend}}-in_steps]",),
        quick=False,
    ),
    Mutation(
        "a handler ends before the steps beside its question",
        "a handler waits when what runs beside the question is over",
        with_part("            or any(step not in self._at_rest for step in self._running())\n", ""),
        (f"{RUNTIME}test_what_runs_beside_a_question_is_finished_and_recorded{ON}",),
        quick=False,
    ),
    Mutation(
        "what a handler left behind makes effects that can't be recorded",
        "a handler that has ended to wait for an answer makes no effect",
        never,
        (f"{RUNTIME}test_a_handler_that_has_ended_to_wait_makes_no_effect{ON}",),
        quick=False,
    ),
    Mutation(
        "a call begins that is cut off at once",
        "no call begins where the handler has ended to wait for an answer",
        never,
        (f"{RUNTIME}test_where_one_call_at_a_time_asks_the_next_one_does_not_begin{ON}",),
        quick=False,
    ),
    Mutation(
        "a request waits for an answer that nobody waits for",
        "a request whose deadline passes is dropped, and does not wait for its answer",
        becomes("times: list[int | None] = [*asked.values()]"),
        (f"{RUNTIME}test_a_request_whose_deadline_passes_while_it_waits_is_over{ON}",),
        quick=False,
    ),
    Mutation(
        "the question of a message that is dropped stays open",
        "what an attempt before recorded and asked goes with a message that is dropped",
        with_part("delivery.envelope.id if delivery.tries else None", "None"),
        (f"{RUNTIME}test_a_cancelled_message_withdraws_its_question_and_later_ones_go_on{ON}",),
        quick=False,
    ),
)

IN_ONE_PROCESS: Final = (
    Mutation(
        "a second answer takes the place of the first",
        "the first answer counts",
        never,
        ("unit/runs/test_run.py::test_an_answer_names_its_question_and_the_first_one_wins",),
        quick=False,
    ),
)

ASK_MUTATIONS: Final = (*OF_WAITING, *OF_QUESTIONS, *OF_HANDLERS, *IN_ONE_PROCESS)
