"""Ways to break what stands around the Lua functions."""

from __future__ import annotations

from typing import Final

from .change import always, becomes, negated, never, removed, when, with_part
from .mutation import ON, TAIL, Mutation

CONSUMER = "unit/broker/consumer/test_consumer.py::"
RECOVERY = "unit/broker/consumer/test_recovery.py::"
DRAIN = "unit/broker/consumer/test_drain.py::"
INTAKE = "unit/broker/consumer/test_intake.py::"
BELL = "unit/broker/consumer/test_bell.py::"
PLACES = "unit/broker/consumer/test_places.py::"
MAILBOX = "unit/broker/consumer/test_mailbox.py::"
BATCHES = "unit/broker/redis/client/test_batches.py::"
PUBLISHER = "unit/broker/redis/client/test_publisher.py::"
SCANS = "unit/broker/redis/client/test_scans.py::"
TRANSPORT = "unit/broker/redis/client/test_transport.py::"
KEEPER = "unit/broker/redis/client/test_keeper.py::"
HEARTBEAT = "unit/broker/redis/client/test_heartbeat.py::"
LINK = "unit/broker/redis/client/test_connection_link.py::"
LANE = "unit/broker/redis/client/test_lane.py::"
REENTRY = "contract/test_runtime_reentry.py::"
WIRE = "unit/broker/redis/client/test_wire.py::"
PRIMARY = "unit/broker/redis/client/test_primary_watch.py::"
FOLLOWER = "unit/broker/redis/client/test_follower.py::"
LOCAL_WORKER = "unit/runtime/test_local_worker.py::"
WATCH = "unit/process/test_lease_watch.py::"
LIMITS = "unit/runtime/test_limits.py::"
AGENTS = "unit/runtime/test_local_agents.py::"
HOST = "unit/runtime/test_host.py::"
ONCE = "unit/runtime/test_once.py::"
TOOLS = "unit/tools/test_running.py::"
ASSISTANT = "unit/agents/assistant/test_recorded.py::"
INDEX = (
    "unit/memory/stores/chroma/test_index.py::"
    "test_what_the_index_lost_is_added_again_when_the_store_is_opened"
)
NAMESPACES = "unit/memory_service/test_namespaces.py::"
SENDING = "unit/runtime/test_sending.py::"
RUNTIME = "unit/runtime/test_runtime.py::"
OPENING = "contract/test_runtime_opening.py::"
REMINDERS = "contract/test_runtime_reminders.py::"
TELLING = "contract/test_runtime_tell.py::"
FAILURES = "contract/test_runtime_failures.py::"
CLOCK = "contract/test_runtime_clock.py::"
REQUESTS = "contract/test_runtime_requests.py::"
OWN_TASK = f"{REQUESTS}test_a_handler_that_cancels_its_own_task_fails_and_harms_nobody_else"
JOINED = "test_a_suspect_that_waits_is_joined_by_what_it_waits_for_and_no_more"
ASKED = "contract/test_runtime_suspects.py::"
ASKING_SUSPECTS = f"{ASKED}test_suspects_that_ask_are_answered_by_the_worker_that_tries_them["

PYTHON_MUTATIONS: Final = (
    Mutation(
        "a scan through a client goes on with the cursor of a server that may be gone",
        "a scan begins anew on another connection",
        becomes("is_lost = False"),
        (f"{SCANS}test_a_scan_begins_anew_on_another_connection[first page]",),
        quick=False,
    ),
    Mutation(
        "a look for what is left goes on with the cursor of a server that may be gone",
        "a look for what is left begins anew on another connection",
        never,
        (f"{TRANSPORT}test_looking_for_what_is_left_begins_anew_where_the_server_may_be_another",),
        quick=False,
    ),
    Mutation(
        "what is parked again of an agent is turned round",
        "what is parked again keeps its order",
        with_part("reversed(rest)", "rest"),
        (f"{MAILBOX}test_all_but_its_share_is_parked_and_the_agent_is_kept",),
        quick=False,
    ),
    Mutation(
        "an agent that goes back is kept all the same",
        "an agent that goes back goes back as a whole",
        never,
        (f"{MAILBOX}test_an_agent_that_is_closed_goes_back_as_a_whole",),
        quick=False,
    ),
    Mutation(
        "a worker does not say what it was answered",
        "what was answered is acknowledged",
        removed,
        (
            f"{TAIL}test_nothing_that_was_committed_in_the_tail_is_committed_twice{ON}",
            f"{TAIL}test_an_idle_worker_hears_it_from_its_heartbeat{ON}",
        ),
    ),
    Mutation(
        "a keeper extends the lease of a stopped worker",
        "a keeper lets a stopped worker lose its lease",
        never,
        (f"{KEEPER}test_a_stopped_worker_loses_its_lease_and_is_not_ended",),
    ),
    Mutation(
        "a keeper extends the lease however long the silence",
        "a keeper extends the lease only while silence is fine",
        when("True"),
        (
            f"{KEEPER}test_past_max_silence_nothing_is_extended",
            f"{KEEPER}test_past_a_limit_the_worker_is_killed_and_what_it_held_is_free",
        ),
        quick=False,
    ),
    Mutation(
        "a keeper brings back a reaped worker",
        "a keeper does not bring back a reaped worker",
        with_part('b"XX", ', ""),
        (f"{KEEPER}test_a_look_at_a_reaped_worker_changes_nothing",),
        quick=False,
    ),
    Mutation(
        "a process that has left is killed",
        "a process that has left is not taken for frozen",
        never,
        (f"{WATCH}test_one_that_has_left_is_left_alone_until_it_joins_again",),
        quick=False,
    ),
    Mutation(
        "a process that is slow to start is killed",
        "a process that has not joined is not taken for frozen",
        never,
        (f"{WATCH}test_one_that_is_slow_to_start_is_left_alone",),
        quick=False,
    ),
    Mutation(
        "a process that lost its lease is killed at once",
        "a process gets time to come back",
        never,
        (f"{WATCH}test_a_process_without_a_lease_gets_a_lease_to_come_back",),
        quick=False,
    ),
    Mutation(
        "after the server was away everybody is killed",
        "after the server was away nobody is killed at once",
        never,
        ("integration/test_supervisor.py::test_after_the_server_was_away_nobody_is_killed_at_once",),
        quick=False,
    ),
    Mutation(
        "the limit of a handler stays when it has ended",
        "a handler that ended has no limit any more",
        never,
        (f"{LIMITS}test_the_board_shows_the_first_that_has_to_end",),
        quick=False,
    ),
    Mutation(
        "after a retry the worker goes on with the key",
        "after a retry the rest of its agent goes back",
        removed,
        (f"{CONSUMER}test_a_retry_gives_back_the_rest_of_its_key_in_order",),
    ),
    Mutation(
        "a fenced handler is committed when it ends",
        "what a fenced handler did is not committed",
        removed,
        (f"{RECOVERY}test_a_fenced_handler_that_goes_on_is_not_committed_when_it_ends",),
    ),
    Mutation(
        "what had ended survives a lost lease",
        "what had ended goes with the lease",
        removed,
        (f"{RECOVERY}test_what_ended_while_the_server_said_no_is_not_committed",),
        quick=False,
    ),
    Mutation(
        "a commit whose answer was lost is sent again unasked",
        "what was committed is not sent again",
        becomes("again = list(sent)"),
        (f"{RECOVERY}test_commits_whose_answer_was_lost_are_counted_or_sent_again",),
        quick=False,
    ),
    Mutation(
        "a commit whose answer was lost is forgotten",
        "what was not committed is sent again",
        removed,
        (f"{RECOVERY}test_commits_whose_answer_was_lost_are_counted_or_sent_again",),
        quick=False,
    ),
    Mutation(
        "entries of a lost answer are forgotten",
        "entries of a lost answer are adopted",
        never,
        (f"{RECOVERY}test_entries_of_a_lost_answer_are_adopted",),
        quick=False,
    ),
    Mutation(
        "what the server does not hold is run all the same",
        "what the server does not hold is not run",
        never,
        (
            f"{RECOVERY}test_what_the_server_does_not_hold_is_not_run",
            f"{RECOVERY}test_what_had_ended_and_the_server_does_not_hold_is_not_committed",
        ),
        quick=False,
    ),
    Mutation(
        "a worker that is cut off keeps its lease",
        "a worker that is cut off lets its lease end",
        never,
        (f"{LOCAL_WORKER}test_the_heart_of_a_worker_that_is_cut_off_does_not_beat",),
        quick=False,
    ),
    Mutation(
        "a connection to a demoted primary stays",
        "a connection to a demoted primary ends",
        never,
        (f"{WIRE}test_a_server_that_is_the_primary_no_more_is_left",),
        quick=False,
    ),
    Mutation(
        "a server that was started again keeps its file",
        "half a transaction at the end of a server's file is not carried out later",
        never,
        ("integration/test_torn_file.py::test_half_a_commit_does_not_come_back",),
        quick=False,
    ),
    Mutation(
        "a connection to a primary that was replaced stays",
        "nothing more is written to a server that sentinels have replaced",
        never,
        (f"{PRIMARY}test_what_is_connected_elsewhere_is_broken_off",),
        quick=False,
    ),
    Mutation(
        "which primary is taken is left to chance",
        "where sentinels are of two minds, it is not by chance who is the primary",
        never,
        (
            "unit/broker/redis/client/test_sentinels.py::test_sentinels_of_two_minds_do_not_leave_it_to_chance",
        ),
        quick=False,
    ),
    Mutation(
        "a new connection confirms what went over the old one",
        "a replica is waited for on the connection of the publish",
        never,
        ("integration/test_replica.py::test_a_new_connection_does_not_confirm_what_went_over_the_old_one",),
        quick=False,
    ),
    Mutation(
        "an answer that does not come is waited for",
        "an answer that does not come breaks the connection",
        never,
        (f"{WIRE}test_each_call_has_its_own_time",),
        quick=False,
    ),
    Mutation(
        "a nested request runs twice in an activation",
        "an activation runs a nested request once",
        never,
        (f"{REENTRY}test_what_came_in_and_was_lost_by_the_server_is_not_run_again{ON}",),
        quick=False,
    ),
    Mutation(
        "a place that is gone is read behind",
        "a remembered place that is gone is not read behind",
        removed,
        (
            f"{FOLLOWER}test_a_stream_that_was_lost_and_goes_on_with_lower_ids_is_read",
            f"{FOLLOWER}test_a_tail_that_was_lost_with_the_connection_is_noticed_at_once",
        ),
        quick=False,
    ),
    Mutation(
        "a drain does not wait for what runs",
        "a drain waits for what runs",
        becomes("return self._boxes.is_draining"),
        (f"{DRAIN}test_a_drain_lets_what_runs_end_and_gives_back_the_rest",),
        quick=False,
    ),
    Mutation(
        "a full or draining worker is handed more",
        "a worker is handed no more than it has room for",
        with_part("False, 0)", "False, 16)"),
        (
            f"{DRAIN}test_a_drain_lets_what_runs_end_and_gives_back_the_rest",
            f"{INTAKE}test_a_full_worker_is_handed_nothing_and_still_names_its_rate_limits",
        ),
        quick=False,
    ),
    Mutation(
        "a worker takes others while a suspect waits",
        "a worker takes nothing while a suspect waits",
        when("self._boxes.is_draining"),
        (f"{INTAKE}{JOINED}",),
        quick=False,
    ),
    Mutation(
        "any number comes beside a suspect that waits",
        "no more comes beside a suspect than is waited for",
        becomes("return 1"),
        (f"{INTAKE}{JOINED}",),
        quick=False,
    ),
    Mutation(
        "beside a suspect come no suspects",
        "what a suspect waits for may be a suspect",
        becomes("held = self._boxes.held"),
        (f"{INTAKE}{JOINED}", f"{ASKING_SUSPECTS}{{backend}}-suspects1]"),
        quick=False,
    ),
    Mutation(
        "anything comes beside a suspect that waits",
        "beside a suspect comes only what is waited for",
        becomes("types = self._asked_for"),
        (f"{INTAKE}{JOINED}",),
        quick=False,
    ),
    Mutation(
        "patience ends when nobody else waits where it was looked",
        "what some types say of suspects is not true of all",
        becomes("self._suspects.heed(turn.suspects_wait and self._boxes.held > 0, turn.suspicion)"),
        (f"{INTAKE}{JOINED}",),
        quick=False,
    ),
    Mutation(
        "who tries a suspect keeps the bells of others",
        "who makes room for a suspect hears no other bell",
        becomes("types = None"),
        (f"{INTAKE}test_who_makes_room_for_a_suspect_hears_the_bells_of_those_it_waits_for_only",),
        quick=False,
    ),
    Mutation(
        "the next attempt is told that the request of the one before came too late",
        "a request that expired is asked anew",
        never,
        (f"{ASKED}test_what_was_asked_too_late_is_asked_anew_in_the_next_attempt{ON}",),
        quick=False,
    ),
    Mutation(
        "a worker takes at once what it has no places for",
        "what is taken at once has a place each",
        becomes("soon = int(self._load.rate * SOON)"),
        (f"{INTAKE}test_what_was_handled_in_no_time_may_be_slow_now_and_has_a_place_each",),
        quick=False,
    ),
    Mutation(
        "patience stays the same",
        "patience grows with the deaths",
        with_part("min(suspicion, MOST_DOUBLINGS)", "0"),
        (f"{INTAKE}test_patience_doubles_with_each_death_up_to_an_end",),
        quick=False,
    ),
    Mutation(
        "the turn at the bell counts when another went first",
        "a turn at the bell that is overtaken counts no more",
        never,
        (f"{LANE}test_a_turn_that_goes_first_makes_the_one_at_the_bell_take_nothing",),
        quick=False,
    ),
    Mutation(
        "what a resync told of is taken from the bell as well",
        "what a resync tells of is not taken from the bell as well",
        removed,
        (f"{LANE}test_a_resync_tells_what_the_bell_brought_and_its_own_answer_counts_no_more",),
    ),
    Mutation(
        "a turn is left at the bell while another is under way",
        "no turn is left at the bell beside another",
        never,
        (f"{LANE}test_beside_a_turn_the_bell_is_heard_and_brings_nothing",),
        quick=False,
    ),
    Mutation(
        "what the bell brought is taken by another incarnation",
        "what counts no more at the bell is not taken",
        never,
        (f"{LANE}test_a_new_incarnation_gets_nothing_of_the_old_ones_bell",),
        quick=False,
    ),
    Mutation(
        "a turn at the bell whose answer is lost is forgotten",
        "a turn at the bell that was not answered is asked after",
        removed,
        (f"{BELL}test_what_the_bell_brought_is_asked_after_when_its_answer_is_lost",),
        quick=False,
    ),
    Mutation(
        "a worker that holds something leaves a turn at the bell",
        "a worker that holds something takes nothing with the bell",
        when("not self.types"),
        (f"{BELL}test_a_worker_that_holds_something_takes_nothing_with_the_bell",),
        quick=False,
    ),
    Mutation(
        "a worker that nobody rings for looks nowhere",
        "a bell that nobody rang is no reason to look nowhere",
        never,
        (f"{BELL}test_a_bell_that_nobody_rang_makes_it_look_at_every_stream",),
        quick=False,
    ),
    Mutation(
        "the bell is not waited for",
        "what the bell is about to bring is waited for",
        never,
        (f"{BELL}test_what_the_bell_brings_comes_before_what_a_later_turn_brings[after it]",),
        quick=False,
    ),
    Mutation(
        "what the bell brought comes last",
        "what the bell brought is taken before what came later",
        becomes(
            "await self._take_up(turn, pull.room)\nif brought is not None:\n    await self._take_in(brought)"
        ),
        (
            f"{BELL}test_what_the_bell_brings_comes_before_what_a_later_turn_brings[after it]",
            f"{BELL}test_what_the_bell_brings_comes_before_what_a_later_turn_brings[while it is under way]",
        ),
        quick=False,
    ),
    Mutation(
        "what the bell brought is taken although the server told of it again",
        "what the bell brought is not taken twice",
        removed,
        (f"{BELL}test_what_the_bell_brought_while_a_turn_failed_is_taken_once",),
    ),
    Mutation(
        "a token that comes when it is full is kept",
        "a full worker passes the token on",
        never,
        (f"{BELL}test_a_token_that_comes_when_it_is_full_is_passed_on",),
        quick=False,
    ),
    Mutation(
        "a mailbox that was closed gets the place",
        "a mailbox that goes back gets no place",
        when("True"),
        (f"{PLACES}test_a_mailbox_that_is_given_back_does_not_keep_a_place_from_those_behind_it",),
        quick=False,
    ),
    Mutation(
        "a key is let go with its first commit",
        "an agent is let go with the last commit that is held",
        becomes('more = ""'),
        (f"{CONSUMER}test_a_key_is_let_go_with_the_last_entry_that_is_held",),
    ),
    Mutation(
        "the commit forgets that it was tried before",
        "a commit says that its entry was tried before",
        never,
        ("contract/model/test_schedules.py::test_no_random_schedule_breaks_the_promise",),
        quick=False,
    ),
    Mutation(
        "the commit does not clear what ctx.once recorded",
        "a commit names what it no longer needs",
        never,
        ("contract/model/test_world.py::test_records_go_with_their_message[{backend}]",),
        quick=False,
    ),
    Mutation(
        "the last entry of a mailbox comes first",
        "a mailbox keeps its order",
        with_part("append(", "appendleft("),
        (f"{CONSUMER}test_entries_of_a_key_are_handled_one_after_the_other_in_order",),
        quick=False,
    ),
    Mutation(
        "two handlers of one key at once",
        "one handler at a time for one agent",
        when("not mailbox.closing"),
        (f"{MAILBOX}test_a_mailbox_that_is_worked_on_is_not_offered_again",),
        quick=False,
    ),
    Mutation(
        "one attempt too many",
        "the last attempt is the last",
        with_part(">=", ">"),
        ("unit/broker/test_retry.py::test_the_last_attempt_ends_it",),
        quick=False,
    ),
    Mutation(
        "an outage lasts for ever",
        "an outage does not last for ever",
        never,
        ("unit/broker/test_retry.py::test_an_outage_ends_no_attempts_but_its_time",),
        quick=False,
    ),
    Mutation(
        "an outage uses up an attempt",
        "an outage uses up no attempt",
        becomes("attempts = delivery.attempt"),
        (
            "contract/test_runtime_failures.py::test_an_outage_uses_up_no_attempt_and_keeps_the_order[{backend}]",
        ),
        quick=False,
    ),
    Mutation(
        "the heart does not beat",
        "a worker's heart beats",
        negated,
        (f"{HEARTBEAT}test_it_extends_the_lease_and_shows_what_is_held",),
    ),
    Mutation(
        "a lost lease is not told",
        "a lost lease is told",
        never,
        (f"{HEARTBEAT}test_a_worker_that_is_not_known_is_told_with_every_beat",),
        quick=False,
    ),
    Mutation(
        "the lane overlooks that it is fenced",
        "a refused turn is not taken for an answer",
        becomes('answer[:] = [b"OK", b"0", b"", b"", [], []]\nreturn'),
        ("contract/test_fencing.py::test_nothing_of_a_reaped_workers_turn_is_written[{backend}]",),
        quick=False,
    ),
    Mutation(
        "a batch that may have been carried out is sent under another name",
        "what may have been carried out is not sent under another name",
        when("False"),
        (f"{BATCHES}test_who_does_not_know_whether_a_batch_arrived_is_told",),
    ),
    Mutation(
        "a number that a person wrote hides a message",
        "a number that no batch had says nothing of the batches before it",
        removed,
        (f"{BATCHES}test_a_number_that_a_person_wrote_hides_no_message",),
    ),
    Mutation(
        "a batch sent again has a new number",
        "a batch that is sent again keeps its number",
        becomes("{statement}\narguments[1] = int(arguments[1]) + 1000"),
        (f"{PUBLISHER}test_a_batch_whose_answer_was_lost_is_added_once",),
    ),
    Mutation(
        "a lost message that was sent at once is forgotten",
        "a message that was sent at once and not answered is sent again",
        becomes("self._fail(batch, ConnectionLostError('', ''))"),
        (f"{PUBLISHER}test_what_was_sent_at_once_and_lost_is_added_once",),
    ),
    Mutation(
        "a failed handler keeps what it changed",
        "a failed handler changes nothing",
        never,
        (f"{HOST}test_a_failing_event_is_tried_again_then_dead",),
        quick=False,
    ),
    Mutation(
        "states survive a lost lease",
        "states are loaded again after a lost lease",
        removed,
        (f"{HOST}test_after_a_lost_lease_persistent_agents_are_loaded_again",),
        quick=False,
    ),
    Mutation(
        "an agent that a factory made for one id is taken for another",
        "an agent that belongs to another id is refused",
        with_part(" and is_bound(made, agent_id, self._runtime)", ""),
        (f"{AGENTS}test_a_factory_that_gives_one_agent_twice_is_found_out",),
        quick=False,
    ),
    Mutation(
        "an agent falls asleep for which a message has come",
        "an agent for which a message has come stays awake",
        with_part(" and not is_held(kind.type, key)", ""),
        (f"{AGENTS}test_an_agent_that_gets_a_message_while_another_falls_asleep",),
        quick=False,
    ),
    Mutation(
        "a state that did not come along is taken for none",
        "a state that did not come along is asked for",
        with_part("(live.version != version or not version)", "live.version != version"),
        (f"{HOST}test_the_state_of_an_agent_that_was_put_to_sleep_is_asked_for",),
        quick=False,
    ),
    Mutation(
        "what expired is started",
        "what expired is not started",
        never,
        (f"{HOST}test_what_nobody_waits_for_any_more_is_not_begun",),
        quick=False,
    ),
    Mutation(
        "what a handler sends at once has no fence",
        "what leaves a handler before its commit is fenced",
        becomes("pass"),
        (
            "contract/test_fences.py::test_messages_of_a_handler_are_refused_and_those_beside_them_are_not[{backend}-reaped]",
        ),
        quick=False,
    ),
    Mutation(
        "a fenced handler is tried again, or answers",
        "a fenced handler makes no outcome",
        never,
        (f"{HOST}test_a_handler_that_was_fenced_is_given_back",),
        quick=False,
    ),
    Mutation(
        "a message to an agent type that does not exist is put where nobody reads",
        "a commit tells nobody who does not exist",
        never,
        (f"{TELLING}test_an_agent_type_that_does_not_exist[{{backend}}-False]",),
        quick=False,
    ),
    Mutation(
        "a reminder is lost as what an agent publishes itself",
        "an agent gets its own reminders",
        when("is_own"),
        (f"{REMINDERS}test_it_comes_at_a_time{ON}",),
    ),
    Mutation(
        "a handler that cancels its own task cancels the next one",
        "a handler that cancels its own task cancels nothing else",
        never,
        (f"{OWN_TASK}[{{backend}}-False]",),
        quick=False,
    ),
    Mutation(
        "an effect is used and not recorded",
        "an effect is recorded before it is used",
        becomes("kept = data"),
        (f"{ONCE}test_the_result_is_recorded_and_found_in_the_next_attempt",),
    ),
    Mutation(
        "what was recorded is not looked up",
        "what was recorded is not done again",
        never,
        (f"{ONCE}test_the_result_is_recorded_and_found_in_the_next_attempt",),
        quick=False,
    ),
    Mutation(
        "what a handler publishes leaves before its commit",
        "what a handler publishes waits for its commit",
        never,
        (f"{SENDING}test_what_a_handler_publishes_waits_for_its_commit",),
        quick=False,
    ),
    Mutation(
        "every attempt sends other ids",
        "every attempt gives the same ids",
        becomes("self._ordinal += id(self) % 1000003 + 1"),
        (f"{SENDING}test_every_attempt_gives_the_same_ids",),
        quick=False,
    ),
    Mutation(
        "depth is not limited",
        "depth is limited",
        never,
        (
            "unit/broker/encoding/test_limits.py::test_junk_is_refused_with_a_reason_and_little_memory[33 levels]",
        ),
        quick=False,
    ),
    Mutation(
        "readers share what a class keeps or changes",
        "readers of one body share no value",
        when("shared is not None"),
        ("unit/broker/encoding/test_sharing.py::test_a_class_that_changes_its_data_gets_data_of_its_own",),
        quick=False,
    ),
    Mutation(
        "messages with one id are taken for each other",
        "what is not the same message is read apart",
        when("seen is not None"),
        ("unit/broker/test_delivery.py::test_what_is_not_the_same_message_is_read_apart[another body]",),
        quick=False,
    ),
    Mutation(
        "a map may have a key twice",
        "a key that is there twice is refused",
        never,
        (
            "unit/broker/encoding/test_limits.py::test_junk_is_refused_with_a_reason_and_little_memory[key twice below]",
        ),
        quick=False,
    ),
    Mutation(
        "a namespace that was given is deleted at the end",
        "a namespace that was given is never deleted",
        becomes("is_temporary = True"),
        (f"{RUNTIME}test_a_namespace_that_was_named_is_used_and_stays[environment]",),
        quick=False,
    ),
    Mutation(
        "what is registered while the runtime opens is forgotten",
        "what is registered while the runtime opens is declared",
        removed,
        (f"{OPENING}test_a_type_that_is_registered_while_the_runtime_opens[{{backend}}]",),
        quick=False,
    ),
    Mutation(
        "the first deadline is by this machine's clock",
        "who only asks knows the server's time before its first deadline",
        removed,
        (f"{CLOCK}test_the_first_request_of_a_process_that_only_asks[{{backend}}--3600.0]",),
        quick=False,
    ),
    Mutation(
        "a server that still reads its file ends a process that begins",
        "a server that still reads its file is waited for",
        never,
        (f"{LINK}test_a_server_that_reads_its_file_is_waited_for",),
    ),
    Mutation(
        "a connection that breaks while it is made ends a process that begins",
        "a connection that breaks while it is made ends no process that begins",
        when("not isinstance(error, ConnectionLostError)"),
        (f"{LINK}test_a_connection_that_breaks_while_it_is_greeted_is_made_again",),
    ),
    Mutation(
        "an answer that is lost ends a process that begins",
        "an answer that is lost ends no process that begins",
        always,
        (f"{LINK}test_a_call_whose_answer_is_lost_is_repeated_until_it_is_lost_for_too_long",),
    ),
    Mutation(
        "a type that came while the worker joined is not announced",
        "a type that came while the worker joined is announced",
        never,
        (f"{OPENING}test_a_type_that_comes_while_the_worker_joins_is_known_as_its_own[{{backend}}]",),
        quick=False,
    ),
    Mutation(
        "a step gets the record of an equal one before it",
        "equal steps of a handler are told apart",
        becomes("number = 1"),
        (f"{TOOLS}test_results_that_were_recorded_are_not_made_again",),
        quick=False,
    ),
    Mutation(
        "the results of tools are not recorded",
        "what a tool returned is recorded before the model reads it",
        becomes("return await self._call(call, asked)"),
        (f"{TOOLS}test_results_that_were_recorded_are_not_made_again",),
    ),
    Mutation(
        "a tool that may have done its work is called again although the model was to be told",
        "a call that a crash cut off is not made again unasked",
        never,
        (f"{TOOLS}test_the_model_is_told_of_an_unknown_outcome_where_that_is_asked_for",),
        quick=False,
    ),
    Mutation(
        "the answers of an assistant's model are not recorded",
        "what a model answers an agent or a team is recorded before it is used",
        becomes("return client"),
        (f"{ASSISTANT}test_neither_the_model_nor_a_tool_is_paid_twice[False]",),
    ),
    Mutation(
        "guardrails are asked again in every attempt",
        "what a guardrail said is recorded before anybody goes by it",
        becomes("return await ask(thing)"),
        (f"{ASSISTANT}test_guardrails_are_not_asked_twice",),
        quick=False,
    ),
    Mutation(
        "memories are asked again in every attempt",
        "what a memory found stays so, else the model were asked again",
        becomes("return await _asked(memory, context)"),
        (f"{ASSISTANT}test_what_a_memory_found_stays_so",),
        quick=False,
    ),
    Mutation(
        "what the index of a memory lost stays lost",
        "what the index lost is looked for when its folder is opened",
        never,
        (f"{INDEX}[without_map]",),
        quick=False,
    ),
    Mutation(
        "memories belong to the app's own namespace, whichever is in force",
        "memories belong to the namespace in force",
        becomes("at = config if is_named else replace(config, namespace=otherwise)"),
        (f"{NAMESPACES}test_a_namespace_finds_what_was_stored_in_it_and_nothing_else",),
        quick=False,
    ),
    Mutation(
        "a result is recorded that no attempt can read",
        "what no attempt could read is not recorded",
        never,
        (f"{ONCE}test_a_result_that_no_attempt_could_read_is_refused",),
        quick=False,
    ),
    Mutation(
        "an effect that can't be recorded for a moment is made again",
        "an effect is not made again because the server was away when it was to be recorded",
        becomes('answer = await self.admin.run("record", arguments)'),
        (f"{FAILURES}test_a_server_that_is_away_at_the_record_has_no_effect_made_again{ON}",),
        quick=False,
    ),
)
