"""Ways to break what stands around the Lua functions."""

from __future__ import annotations

from typing import Final

from .mutation import Mutation

CONSUMER = "unit/broker/test_consumer.py::"
FAULTS = "unit/broker/test_consumer_faults.py::"
DRAIN = "unit/broker/test_consumer_drain.py::"
PUBLISHER = "unit/broker/redis/test_publisher.py::"
HEARTBEAT = "unit/broker/redis/test_heartbeat.py::"
LANE = "unit/broker/redis/test_lane.py::"
HOST = "unit/actors/test_host.py::"
ONCE = "unit/actors/test_once.py::"
SENDING = "unit/actors/test_sending.py::"

PYTHON_MUTATIONS: Final = (
    Mutation(
        "after a retry the worker goes on with the key",
        "broker/consumer.py",
        "            mailbox.closing = True\n        self._boxes.finish(mailbox)",
        "            pass\n        self._boxes.finish(mailbox)",
        (f"{CONSUMER}test_a_retry_gives_back_the_rest_of_its_key_in_order",),
    ),
    Mutation(
        "a fenced handler is committed when it ends",
        "broker/consumer.py",
        "        if mailbox.fenced:\n            return\n",
        "",
        (f"{FAULTS}test_a_fenced_handler_that_goes_on_is_not_committed_when_it_ends",),
    ),
    Mutation(
        "what had ended survives a lost lease",
        "broker/consumer.py",
        "        self._finished.clear()\n",
        "",
        (f"{FAULTS}test_what_ended_while_the_server_said_no_is_not_committed",),
        quick=False,
    ),
    Mutation(
        "a commit whose answer was lost is sent again unasked",
        "broker/consumer.py",
        "again = [item for item in sent if item[1].reference in held]",
        "again = list(sent)",
        (f"{FAULTS}test_commits_whose_answer_was_lost_are_counted_or_sent_again",),
        quick=False,
    ),
    Mutation(
        "a commit whose answer was lost is forgotten",
        "broker/consumer.py",
        "        self._finished = again + self._finished\n",
        "",
        (f"{FAULTS}test_commits_whose_answer_was_lost_are_counted_or_sent_again",),
        quick=False,
    ),
    Mutation(
        "entries of a lost answer are forgotten",
        "broker/consumer.py",
        "            if reference not in known:\n                self._boxes.add(delivery)\n",
        "            pass\n",
        (f"{FAULTS}test_entries_of_a_lost_answer_are_adopted",),
        quick=False,
    ),
    Mutation(
        "a drain does not wait for what runs",
        "broker/consumer.py",
        "while not (self._draining and not self._boxes.held and not self._finished):",
        "while not self._draining:",
        (f"{DRAIN}test_a_drain_lets_what_runs_end_and_gives_back_the_rest",),
        quick=False,
    ),
    Mutation(
        "a draining worker is handed more",
        "broker/consumer.py",
        "await self._lane.turn(done, wants, held, scan, not self._draining)",
        "await self._lane.turn(done, wants, held, scan, True)",
        (f"{DRAIN}test_a_drain_lets_what_runs_end_and_gives_back_the_rest",),
        quick=False,
    ),
    Mutation(
        "a worker takes others while a suspect waits",
        "broker/consumer.py",
        "if self._draining or self._wait_empty:",
        "if self._draining:",
        (f"{CONSUMER}test_a_suspect_is_handled_alone",),
        quick=False,
    ),
    Mutation(
        "a key is let go with its first commit",
        "broker/commits.py",
        'more = "" if is_free else "M"',
        'more = ""',
        (f"{CONSUMER}test_a_key_is_let_go_with_the_last_entry_that_is_held",),
    ),
    Mutation(
        "the commit forgets that it was tried before",
        "broker/commits.py",
        '        mode += "T"',
        '        mode += ""',
        ("contract/model/test_schedules.py::test_no_random_schedule_breaks_the_promise",),
        quick=False,
    ),
    Mutation(
        "the commit does not clear what ctx.once recorded",
        "broker/commits.py",
        "if outcome.once_of is not None:",
        "if False:",
        ("contract/model/test_world.py::test_records_go_with_their_message[{backend}]",),
        quick=False,
    ),
    Mutation(
        "the last entry of a mailbox comes first",
        "broker/mailbox.py",
        "        mailbox.queue.append(delivery)\n",
        "        mailbox.queue.appendleft(delivery)\n",
        (f"{CONSUMER}test_entries_of_a_key_are_handled_one_after_the_other_in_order",),
        quick=False,
    ),
    Mutation(
        "two handlers of one key at once",
        "broker/mailbox.py",
        "if len(mailbox.queue) == 1 and mailbox.task is None and not mailbox.closing:",
        "if not mailbox.closing:",
        ("unit/broker/test_mailbox.py::test_a_mailbox_that_is_worked_on_is_not_offered_again",),
        quick=False,
    ),
    Mutation(
        "one attempt too many",
        "broker/retry.py",
        "if attempt >= self.max_attempts:",
        "if attempt > self.max_attempts:",
        ("unit/broker/test_retry.py::test_the_last_attempt_ends_it",),
        quick=False,
    ),
    Mutation(
        "the heart does not beat",
        "broker/redis/heartbeat.py",
        "        if not worker:\n            return\n        settings",
        "        if worker:\n            return\n        settings",
        (f"{HEARTBEAT}test_it_extends_the_lease_and_shows_what_is_held",),
    ),
    Mutation(
        "a lost lease is not told",
        "broker/redis/heartbeat.py",
        'if answer[0] == b"FENCED":',
        'if answer[0] == b"":',
        (f"{HEARTBEAT}test_a_worker_that_is_not_known_is_told_with_every_beat",),
        quick=False,
    ),
    Mutation(
        "the lane overlooks that it is fenced",
        "broker/redis/lane.py",
        "            raise FencedError(self.worker)\n",
        '            answer[:] = [b"OK", b"0", b"", b"", [], []]\n            return\n',
        ("contract/test_fencing.py::test_nothing_of_a_reaped_workers_turn_is_written[{backend}]",),
        quick=False,
    ),
    Mutation(
        "a batch sent again has a new number",
        "broker/redis/publisher.py",
        "                await self._link.reconnect(left)",
        "                await self._link.reconnect(left)\n                arguments[1] = int(arguments[1]) + 1000",
        (f"{PUBLISHER}test_a_batch_whose_answer_was_lost_is_added_once",),
    ),
    Mutation(
        "a failed handler keeps what it changed",
        "actors/host.py",
        "        if entry.persistent:\n            self.agents.roll_back(live)",
        "        if entry.persistent:\n            pass",
        (f"{HOST}test_a_failing_event_is_tried_again_then_dead",),
        quick=False,
    ),
    Mutation(
        "states survive a lost lease",
        "actors/host.py",
        "        self.agents.forget_persistent()",
        "        return",
        (f"{HOST}test_after_a_lost_lease_persistent_agents_are_loaded_again",),
        quick=False,
    ),
    Mutation(
        "a state that did not come along is taken for none",
        "actors/host.py",
        "(live.version != version or not version)",
        "live.version != version",
        (f"{HOST}test_the_state_of_an_agent_that_was_put_to_sleep_is_asked_for",),
        quick=False,
    ),
    Mutation(
        "what expired is started",
        "actors/host.py",
        "if envelope.deadline is not None and self._now_ms() > envelope.deadline:",
        "if False and envelope.deadline is not None:",
        (f"{HOST}test_what_nobody_waits_for_any_more_is_not_begun",),
        quick=False,
    ),
    Mutation(
        "an effect is used and not recorded",
        "actors/once.py",
        "        kept = await self._transport.record(self._agent_type, self._message_id, name, data)\n",
        "        kept = data\n",
        (f"{ONCE}test_the_result_is_recorded_and_found_in_the_next_attempt",),
    ),
    Mutation(
        "what was recorded is not looked up",
        "actors/once.py",
        "if name in self._recorded:",
        "if False:",
        (f"{ONCE}test_the_result_is_recorded_and_found_in_the_next_attempt",),
        quick=False,
    ),
    Mutation(
        "what a handler publishes leaves before its commit",
        "actors/sending.py",
        "if activation is not None and not now:",
        "if False:",
        (f"{SENDING}test_what_a_handler_publishes_waits_for_its_commit",),
        quick=False,
    ),
    Mutation(
        "every attempt sends other ids",
        "actors/activation.py",
        "        self._ordinal += 1\n",
        "        self._ordinal += id(self) % 1000003 + 1\n",
        (f"{SENDING}test_every_attempt_gives_the_same_ids",),
        quick=False,
    ),
    Mutation(
        "depth is not limited",
        "broker/limits.py",
        "        if depth > limits.max_depth:",
        "        if False:",
        ("unit/broker/test_limits.py::test_junk_is_refused_with_a_reason_and_little_memory[33 levels]",),
        quick=False,
    ),
)
