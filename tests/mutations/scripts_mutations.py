"""Ways to break the Lua functions."""

from __future__ import annotations

from typing import Final

from .mutation import SCRIPTS, Mutation

COMMON, STEP, BEAT = f"{SCRIPTS}/common.lua", f"{SCRIPTS}/step.lua", f"{SCRIPTS}/beat.lua"
FENCING = "contract/test_fencing.py::"
ACTIVATION = "contract/test_activation.py::"
COMMIT = "contract/test_commit.py::"
REAPING = "contract/test_reaping.py::"
ORDER = "contract/test_order.py::"
PUBLISH = "contract/test_publish.py::"
TRIMMING = "contract/test_trimming.py::"
LOSS = "contract/test_server_loss.py::"
SCHEDULES = "contract/model/test_schedules.py::"
WORLD = "contract/model/test_world.py::"
ON = "[{backend}]"

OF_WORKERS: Final = (
    Mutation(
        "fence check removed",
        STEP,
        "if not last_call then return { 'FENCED' } end",
        "last_call = last_call or '0'",
        (f"{FENCING}test_nothing_of_a_reaped_workers_turn_is_written{ON}",),
    ),
    Mutation(
        "stale call accepted",
        STEP,
        "if tonumber(last_call) >= call_number then return { 'STALE' } end",
        "",
        (f"{FENCING}test_a_copy_of_an_old_turn_is_refused{ON}",),
    ),
    Mutation(
        "number of the call not kept",
        STEP,
        "call('HSET', P .. 'worker:' .. worker, 'call', call_number)",
        "",
        (f"{FENCING}test_a_copy_of_an_old_turn_is_refused{ON}",),
        quick=False,
    ),
    Mutation(
        "reaped worker keeps its fence",
        COMMON,
        "call('DEL', P .. 'own:' .. worker, P .. 'worker:' .. worker)",
        "call('DEL', P .. 'own:' .. worker)",
        (f"{FENCING}test_nothing_of_a_reaped_workers_turn_is_written{ON}",),
    ),
    Mutation(
        "resync lets in who was reaped",
        f"{SCRIPTS}/resync.lua",
        "if not call('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end",
        "",
        (f"{FENCING}test_beat_and_resync_of_a_fenced_worker_say_so{ON}",),
    ),
    Mutation(
        "resync lets older turns in",
        f"{SCRIPTS}/resync.lua",
        "call('HSET', P .. 'worker:' .. worker, 'call', call_number)",
        "",
        (f"{FENCING}test_resync_tells_what_is_held_in_order_and_shuts_out_older_turns{ON}",),
        quick=False,
    ),
    Mutation(
        "beat brings back who was reaped",
        BEAT,
        "if not call('ZSCORE', P .. 'workers', worker) then return { 'FENCED' } end",
        "",
        (f"{FENCING}test_beat_and_resync_of_a_fenced_worker_say_so{ON}",),
    ),
    Mutation(
        "lease not renewed",
        BEAT,
        "call('ZADD', P .. 'workers', text(now() + lease), worker)",
        "",
        (f"{REAPING}test_a_lease_ends_by_the_clock_of_the_server{ON}",),
    ),
    Mutation(
        "nobody is reaped",
        BEAT,
        "local reaped = reap_expired()",
        "local reaped = 0",
        (f"{REAPING}test_what_a_dead_worker_held_goes_back_in_front_and_in_order{ON}",),
    ),
    Mutation(
        "everybody is reaped",
        BEAT,
        "'-inf', text(now() - 1), 'LIMIT', 0, 8)",
        "'-inf', '+inf', 'LIMIT', 0, 8)",
        (f"{REAPING}test_a_lease_that_has_not_ended_is_left_alone{ON}",),
    ),
    Mutation(
        "epoch does not rise",
        f"{SCRIPTS}/join.lua",
        "call('INCR', P .. 'epoch')",
        "1",
        (f"{FENCING}test_names_of_incarnations_only_rise{ON}",),
    ),
    Mutation(
        "reaping keeps keys busy",
        COMMON,
        "    ring(agent_type, 1)\n  else\n    call('HDEL', P .. 'busy:' .. agent_type, key)\n  end",
        "    ring(agent_type, 1)\n  end",
        (f"{SCHEDULES}test_no_random_schedule_breaks_the_promise",),
        quick=False,
    ),
    Mutation(
        "reaping forgets what was held",
        COMMON,
        "if #refs > 0 then park_in_front(agent_type, key, refs) end",
        "",
        (f"{REAPING}test_what_a_dead_worker_held_goes_back_in_front_and_in_order{ON}",),
    ),
    Mutation(
        "order reversed when entries go back",
        COMMON,
        "for i = #refs, 1, -1 do reversed[#reversed + 1] = refs[i] end",
        "for i = 1, #refs do reversed[#reversed + 1] = refs[i] end",
        (
            f"{REAPING}test_what_a_dead_worker_held_goes_back_in_front_and_in_order{ON}",
            f"{COMMIT}test_released_entries_go_to_others_at_once_in_order_without_an_attempt{ON}",
        ),
    ),
    Mutation(
        "a death counts no attempt",
        COMMON,
        "attempts, first = tonumber(attempts or 0) + 1, first or text(now())",
        "attempts, first = tonumber(attempts or 0), first or text(now())",
        (f"{REAPING}test_one_attempt_means_one{ON}",),
    ),
    Mutation(
        "a death counts for all that was held",
        COMMON,
        "local attempts, first = count_crash(agent_type, refs[1])",
        "for i = 2, #refs do count_crash(agent_type, refs[i]) end\n"
        "    local attempts, first = count_crash(agent_type, refs[1])",
        (f"{REAPING}test_what_a_dead_worker_held_goes_back_in_front_and_in_order{ON}",),
        quick=False,
    ),
    Mutation(
        "leaving in peace counts an attempt",
        f"{SCRIPTS}/leave.lua",
        "local crashed, exact = ARGV[1] == '1', ARGV[2] == '1'",
        "local crashed, exact = true, ARGV[2] == '1'",
        (f"{REAPING}test_leaving_in_peace_counts_no_attempt{ON}",),
    ),
    Mutation(
        "suspects not alone",
        STEP,
        "if held > 0 or out_n > 0 then",
        "if false then",
        (f"{REAPING}test_a_worker_that_holds_something_is_told_that_a_suspect_waits{ON}",),
    ),
    Mutation(
        "others come along with a suspect",
        STEP,
        "and pull_suspect(type_names[i]) then return end",
        "then pull_suspect(type_names[i]) end",
        (f"{REAPING}test_a_suspect_is_tried_alone{ON}",),
        quick=False,
    ),
    Mutation(
        "consumer goes with its pending entries",
        COMMON,
        "      move_pending(agent_type, suffix, worker, heir)\n",
        "      redis.pcall('XGROUP', 'DELCONSUMER', P .. suffix, agent_type, worker)\n",
        (f"{SCHEDULES}test_no_random_schedule_breaks_the_promise",),
        quick=False,
    ),
)

OF_KEYS: Final = (
    Mutation(
        "busy keys are given to others",
        STEP,
        "if not busy[i] then",
        "if busy[i] ~= worker then",
        (f"{ACTIVATION}test_a_busy_key_is_given_to_nobody_else{ON}",),
    ),
    Mutation(
        "no parked check",
        STEP,
        "elseif busy[i] == worker and call('HEXISTS', P .. 'parked:' .. agent_type, key) == 0 then",
        "elseif busy[i] == worker then",
        (f"{ACTIVATION}test_more_of_a_key_that_a_worker_holds_goes_to_it_while_nothing_is_parked{ON}",),
    ),
    Mutation(
        "parked order reversed",
        STEP,
        "call('RPUSH', P .. 'wait:' .. agent_type .. ':' .. key, ref)",
        "call('LPUSH', P .. 'wait:' .. agent_type .. ':' .. key, ref)",
        (f"{ACTIVATION}test_whoever_finishes_a_key_gets_what_waits_behind_it{ON}",),
    ),
    Mutation(
        "parked entries not counted",
        STEP,
        "call('HINCRBY', P .. 'parked:' .. agent_type, key, 1)",
        "",
        (f"{ACTIVATION}test_whoever_finishes_a_key_gets_what_waits_behind_it{ON}",),
        quick=False,
    ),
    Mutation(
        "what was parked is taken twice",
        STEP,
        "call('LTRIM', list, #refs, -1)",
        "",
        (f"{ACTIVATION}test_a_long_queue_behind_a_key_is_handed_over_in_parts_and_in_order{ON}",),
    ),
    Mutation(
        "a finished key stays busy",
        STEP,
        "bulk('HDEL', P .. 'busy:' .. agent_type, free)",
        "",
        (f"{FENCING}test_a_lease_that_ended_holds_until_somebody_else_takes_over{ON}",),
    ),
    Mutation(
        "a key is let go while more of it is held",
        STEP,
        "local is_last = mode == 'C' or (mode ~= 'CM' and not has(mode, 'M'))",
        "local is_last = true",
        (f"{ACTIVATION}test_a_key_stays_with_the_worker_while_it_holds_more_of_it{ON}",),
    ),
    Mutation(
        "who takes nothing is handed more",
        STEP,
        "if accept and not rate[agent_type] then return",
        "if not rate[agent_type] then return",
        (f"{ACTIVATION}test_who_takes_nothing_more_leaves_the_key_to_others{ON}",),
    ),
    Mutation(
        "streams not merged",
        STEP,
        "table.sort(list, function(a, b) return a.sort < b.sort end)",
        "",
        (f"{ORDER}test_order_over_streams_within_a_millisecond{ON}",),
    ),
    Mutation(
        "a gap in another stream does not hold back",
        STEP,
        "if #chosen < count and (not cutoff or item.sort <= cutoff) then",
        "if #chosen < count then",
        (f"{ORDER}test_what_was_read_ahead_of_another_stream_comes_in_its_turn{ON}",),
    ),
    Mutation(
        "what was read ahead is dropped",
        STEP,
        "call('ZADD', P .. 'early:' .. agent_type, 0, item.sort .. '|' .. item.suffix .. ' ' .. item.id)",
        "",
        (f"{ORDER}test_what_was_read_ahead_of_another_stream_comes_in_its_turn{ON}",),
        quick=False,
    ),
    Mutation(
        "ids do not rise over streams",
        COMMON,
        "if clock_ms then call('SET', P .. 'clock', text(clock_ms) .. '-' .. text(clock_n)) end",
        "",
        (f"{ORDER}test_order_over_streams_within_a_millisecond{ON}",),
        quick=False,
    ),
    Mutation(
        "a stream with unread entries is forgotten",
        COMMON,
        "    bulk('SADD', P .. 'fresh:' .. agent_type, suffixes)\n    ring(",
        "    ring(",
        (f"{WORLD}test_new_entries_are_found_without_looking_everywhere{ON}",),
        quick=False,
    ),
)

OF_COMMITS: Final = (
    Mutation(
        "acknowledged and not done: state dropped",
        STEP,
        "'v', version, 'd', data, 'w', worker)",
        "'w', worker)",
        (f"{COMMIT}test_everything_of_a_commit_is_there_afterwards{ON}",),
    ),
    Mutation(
        "acknowledged and not done: outgoing dropped",
        STEP,
        "  for _ = 1, tonumber(read()) do\n    if not void then\n",
        "  for _ = 1, tonumber(read()) do\n    if false then\n",
        (f"{COMMIT}test_everything_of_a_commit_is_there_afterwards{ON}",),
    ),
    Mutation(
        "acknowledged and not done: reply dropped",
        STEP,
        "  send_reply(process, id, kind, from, head, body)\nend",
        "end",
        (f"{COMMIT}test_everything_of_a_commit_is_there_afterwards{ON}",),
    ),
    Mutation(
        "done and not acknowledged",
        STEP,
        "redis.pcall('XACK', P .. groups[g].suffix, groups[g].type, unpack(",
        "redis.pcall('XLEN', P .. groups[g].suffix, groups[g].type, unpack(",
        (f"{FENCING}test_a_lease_that_ended_holds_until_somebody_else_takes_over{ON}",),
        quick=False,
    ),
    Mutation(
        "a worker keeps what it finished",
        STEP,
        "bulk('HDEL', P .. 'own:' .. worker, fields)",
        "",
        (f"{FENCING}test_a_turn_that_was_carried_out_and_not_answered_is_found_by_resync{ON}",),
    ),
    Mutation(
        "a retry is acknowledged",
        STEP,
        "if is_plain(mode) or not (has(mode, 'R') or has(mode, 'L') or has(mode, 'W')) then",
        "if true then",
        (f"{TRIMMING}test_what_is_held_parked_or_backing_off_stays_and_the_rest_goes{ON}",),
    ),
    Mutation(
        "a retry counts no attempt",
        STEP,
        "attempts .. ' ' .. first .. ' ' .. reason)",
        "(tonumber(attempts) - 1) .. ' ' .. first .. ' ' .. reason)",
        (f"{COMMIT}test_a_retry_comes_back_first_and_counts{ON}",),
    ),
    Mutation(
        "a retry does not wait",
        STEP,
        "if back.delay > 0 then",
        "if false then",
        (f"{COMMIT}test_a_key_that_backs_off_waits_and_others_go_on{ON}",),
    ),
    Mutation(
        "a release counts an attempt",
        STEP,
        "    give_back(i, 0)",
        "    count_crash(commit_group[i].type, ref_of(i))\n    give_back(i, 0)",
        (f"{COMMIT}test_released_entries_go_to_others_at_once_in_order_without_an_attempt{ON}",),
    ),
    Mutation(
        "attempts are kept after the commit",
        STEP,
        "if has(mode, 'T') then call('HDEL', P .. 'tries:' .. commit_group[i].type, ref_of(i)) end",
        "",
        (f"{COMMIT}test_a_retry_comes_back_first_and_counts{ON}",),
    ),
    Mutation(
        "a dead letter is not kept",
        STEP,
        "  bury(group.type, group.suffix, commit_id[i], values, letter)",
        "",
        (f"{COMMIT}test_a_dead_letter_says_everything{ON}",),
    ),
    Mutation(
        "once not cleared",
        STEP,
        "  call('DEL', record)\n",
        "",
        (f"{WORLD}test_records_go_with_their_message{ON}",),
    ),
    Mutation(
        "a cancelled request is committed",
        STEP,
        "void = call('ZSCORE', P .. 'cancelled', read()) and true",
        "read()",
        (f"{WORLD}test_nothing_of_a_cancelled_request_is_written{ON}",),
    ),
    Mutation(
        "an entry that is too large reaches a worker",
        STEP,
        "if #values[7] > max_body then",
        "if false then",
        (
            "contract/test_junk.py::test_junk_is_a_dead_letter_and_what_follows_is_delivered[{backend}-too large]",
        ),
        quick=False,
    ),
)

OF_PUBLISHING: Final = (
    Mutation(
        "dedupe off",
        COMMON,
        "or call('SADD', current, idem) == 0 then return true end",
        "then return true end\n  call('SADD', current, idem)",
        (f"{PUBLISH}test_an_idempotency_id_is_added_once{ON}",),
    ),
    Mutation(
        "dedupe forgets at the turn of a window",
        COMMON,
        "if call('SISMEMBER', last, idem) == 1 or",
        "if",
        (f"{PUBLISH}test_an_id_is_known_over_the_turn_of_a_window{ON}",),
    ),
    Mutation(
        "what a handler sends at once is sent by every attempt",
        COMMON,
        "'>' .. id, '1') == 0 then return true end",
        "'>' .. id, '1') == 2 then return true end",
        (f"{WORLD}test_records_go_with_their_message{ON}",),
    ),
    Mutation(
        "a batch that is sent again is added again",
        f"{SCRIPTS}/publish.lua",
        "if known then return known end",
        "",
        (f"{PUBLISH}test_a_batch_that_is_sent_again_adds_nothing{ON}",),
    ),
    Mutation(
        "a duplicate is added",
        f"{SCRIPTS}/publish.lua",
        "    return 'duplicate'\n",
        "",
        (f"{PUBLISH}test_an_idempotency_id_is_added_once{ON}",),
        quick=False,
    ),
    Mutation(
        "a timer fires twice",
        COMMON,
        "    send_or_bury(sender, stream, 0, entry.id,",
        "    send_or_bury(sender, stream, 0, entry.id, entry.type, entry.key, entry.from, entry.head, entry.body)\n"
        "    send_or_bury(sender, stream, 0, entry.id,",
        (f"{PUBLISH}test_a_delayed_message_comes_when_it_is_due{ON}",),
    ),
    Mutation(
        "a timer that fired stays",
        COMMON,
        "    call('ZREM', P .. 'timers', due[i])\n",
        "",
        (f"{PUBLISH}test_a_delayed_message_comes_when_it_is_due{ON}",),
    ),
    Mutation(
        "what is due later leaves at once",
        COMMON,
        "if due > now() then",
        "if false then",
        (f"{PUBLISH}test_a_delayed_message_comes_when_it_is_due{ON}",),
        quick=False,
    ),
    Mutation(
        "a letter is replayed twice",
        f"{SCRIPTS}/replay.lua",
        "if status == 'done' then call('XDEL', letters, ARGV[i]) end",
        "",
        (f"{REAPING}test_replaying_a_letter_twice_sends_it_once{ON}",),
    ),
    Mutation(
        "trimming takes what is pending",
        BEAT,
        "    if tonumber(group.pending) > 0 then bound = lowest(bound, call('XPENDING', stream, group.name)[2]) end\n",
        "",
        (f"{TRIMMING}test_what_is_held_parked_or_backing_off_stays_and_the_rest_goes{ON}",),
    ),
    Mutation(
        "trimming takes what a slower group has not read",
        BEAT,
        "return (not a or sortable(b) < sortable(a)) and b or a end",
        "return (not a or sortable(b) > sortable(a)) and b or a end",
        (f"{TRIMMING}test_what_a_slower_group_has_not_read_stays{ON}",),
        quick=False,
    ),
    Mutation(
        "the sweep takes what is pending",
        BEAT,
        "if not keep[id] and sortable(id) <= sortable(reach) then",
        "if sortable(id) <= sortable(reach) then",
        (f"{TRIMMING}test_what_is_held_parked_or_backing_off_stays_and_the_rest_goes{ON}",),
    ),
    Mutation(
        "a lost group begins at the end",
        STEP,
        "create_group(suffix, agent_type, cursor)",
        "create_group(suffix, agent_type, '$')",
        (f"{LOSS}test_a_group_that_was_destroyed_goes_on_where_it_was{ON}",),
    ),
    Mutation(
        "a lost group begins at the first entry",
        STEP,
        "create_group(suffix, agent_type, cursor)",
        "create_group(suffix, agent_type, '0')",
        (f"{LOSS}test_a_group_that_was_destroyed_goes_on_where_it_was{ON}",),
        quick=False,
    ),
    Mutation(
        "a lost group forgets what is pending",
        STEP,
        "if cursor ~= '0' then adopt(agent_type, suffix) end",
        "",
        (f"{TRIMMING}test_entries_whose_group_came_back_are_not_trimmed_away{ON}",),
        quick=False,
    ),
)

SCRIPT_MUTATIONS: Final = (*OF_WORKERS, *OF_KEYS, *OF_COMMITS, *OF_PUBLISHING)
