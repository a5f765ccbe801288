"""MagenticOneGroupChat: ledgers, stalls, limits, answers that can't be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.conditions import MaxMessageTermination
from callboard.memory.llm_messages import Image
from callboard.messages import MultiModalMessage, SelectSpeakerEvent
from callboard.models import ModelFamily, ModelInfo, ReplayChatCompletionClient, RequestUsage
from callboard.models.errors import BadRequestError, BadResponseError
from callboard.models.openai.chat_request import class_format
from callboard.teams import MagenticOneGroupChat, SpeakerChoiceError, TeamRunError
from callboard.teams.magentic_one import LedgerEntry, nearest, read_ledger
from tests.helpers.ledgers import ledger
from tests.helpers.team_members import Parrot, shown_by, speakers_of

BOSS = "MagenticOneOrchestrator"


def team_of(
    *answers: Any, names: str = "ann bob", **options: Any
) -> tuple[MagenticOneGroupChat, list[Parrot]]:
    members = [Parrot(name) for name in names.split()]
    return MagenticOneGroupChat(members, ReplayChatCompletionClient(answers), **options), members


def short(speakers: str) -> str:
    return speakers.replace(BOSS, "boss")


# The ledger


@pytest.mark.parametrize(
    "text",
    [ledger(), f"```json\n{ledger()}\n```", f"Here it is:\n```\n{ledger()}\n```\nDone.", f"  {ledger()} \n"],
)
def test_a_ledger_may_stand_in_a_block(text: str) -> None:
    entry = read_ledger(text, ["ann", "bob"])
    assert entry.next_speaker.answer == "ann"
    assert entry.instruction_or_question.answer == "Do it."


def without(field: str) -> str:
    return json.dumps({name: value for name, value in json.loads(ledger()).items() if name != field})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I can't.", "it is not JSON"),
        ("", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ("```python\n1\n```", "the block in the answer is not JSON"),
        (f"```json\n{ledger()}\n```\n```json\n{ledger()}\n```", "there are 2 blocks in the answer"),
        (ledger("eve"), "next_speaker is none of ['ann', 'bob']"),
        *((without(field), f"{field}: Field required") for field in LedgerEntry.model_fields),
        (ledger().replace("reason", "why"), "is_request_satisfied.reason: Field required"),
    ],
)
def test_what_is_no_ledger(text: str, problem: str) -> None:
    with pytest.raises(SpeakerChoiceError) as raised:
        read_ledger(text, ["ann", "bob"])
    assert str(raised.value) == problem


def test_one_member_is_always_the_next() -> None:
    assert read_ledger(without("next_speaker"), ["ann"]).next_speaker.answer == "ann"
    assert read_ledger(ledger("eve"), ["ann"]).next_speaker.answer == "ann"


def test_nobody_has_to_be_named_at_the_end() -> None:
    assert read_ledger(ledger("", done=True), ["ann", "bob"]).is_request_satisfied.answer


# Who speaks


@pytest.mark.parametrize(
    ("answers", "options", "speakers", "stop"),
    [
        # The ledger, an instruction before each turn, the final answer.
        ([ledger(), ledger("bob"), ledger(done=True)], {}, "boss boss ann boss bob boss", "because"),
        # Nobody has done anything yet: that all is done is not believed.
        ([ledger(done=True), ledger("bob"), ledger(done=True)], {}, "boss boss bob boss", "because"),
        ([ledger("eve", done=True)] * 2 + [ledger(done=True)], {}, "boss boss ann boss", "because"),
        # A name that is nearly right.
        ([ledger("Bob, the coder"), ledger(done=True)], {}, "boss boss bob boss", "because"),
        # A stall counts one up and progress one down; at the limit there is a new plan.
        (
            [ledger(), ledger("bob", progress=False), "facts2", "plan2", ledger(), ledger(done=True)],
            {"max_stalls": 1},
            "boss boss ann boss boss ann boss",
            "because",
        ),
        (
            [ledger(loop=True), ledger("bob"), ledger(progress=False), ledger(done=True)],
            {"max_stalls": 2},
            "boss boss ann boss bob boss ann boss",
            "because",
        ),
        # One ledger more than turns, as in AutoGen.
        ([ledger(), ledger("bob")], {"max_turns": 1}, "boss boss ann boss bob boss", "Max rounds reached."),
        # An answer that can't be read is asked for again.
        (["?", ledger("eve"), "{}", ledger(), ledger(done=True)], {}, "boss boss ann boss", "because"),
        # A condition ends the run without a final answer.
        (
            [ledger(), ledger("bob")],
            {"termination_condition": MaxMessageTermination(2)},
            "boss boss ann",
            "Maximum number of messages 2 reached, current message count: 2",
        ),
    ],
)
async def test_the_orchestrator_leads(
    answers: list[Any], options: dict[str, Any], speakers: str, stop: str
) -> None:
    team, _ = team_of("facts", "plan", *answers, "The answer.", **options)
    result = await team.run(task="Find it.")
    assert short(speakers_of(result)) == f"user {speakers}"
    assert result.stop_reason == stop
    has_answer = "termination_condition" not in options
    assert (result.messages[-1].to_text() == "The answer.") is has_answer


async def test_members_hear_the_ledger_and_the_instructions_but_not_the_task() -> None:
    team, (ann, bob) = team_of(
        "FACTS", "PLAN", ledger(), ledger("bob", says="Your turn."), ledger(done=True), "x"
    )
    await team.run(task="Find it.")
    (heard,) = ann.heard
    assert all(part in heard[0] for part in ("Find it.", "ann: is ann", "FACTS", "PLAN"))
    assert heard[1:] == ["Do it."]
    assert bob.heard[0][1:] == [
        "Do it.",
        "ann1 [MagenticOneOrchestrator:The MagenticOneOrchestrator:Do]",
        "Your turn.",
    ]


async def test_with_a_new_plan_members_begin_again() -> None:
    answers = [
        ledger(),
        ledger(progress=False),
        "FACTS2",
        "PLAN2",
        ledger("bob"),
        ledger(),
        ledger(done=True),
        "x",
    ]
    team, (ann, bob) = team_of("FACTS", "PLAN", *answers, max_stalls=1)
    result = await team.run(task="Find it.")
    # Bob hears nothing from before the new plan, and Ann counts from one again.
    assert [len(heard) for heard in bob.heard] == [2]
    assert "FACTS2" in bob.heard[0][0]
    assert ann.spoken == 1
    assert short(speakers_of(result)) == "user boss boss ann boss boss bob boss ann boss"


async def test_the_model_sees_what_was_said_since_the_plan() -> None:
    answers = [ledger(), ledger(progress=False), "FACTS2", "PLAN2", ledger("bob"), ledger(done=True), "x"]
    model = ReplayChatCompletionClient(["FACTS", "PLAN", *answers])
    await MagenticOneGroupChat([Parrot("ann"), Parrot("bob")], model, max_stalls=1).run(task="Find it.")
    seen = [len(call["messages"]) for call in model.create_calls]
    # facts, plan | ledger, ledger | facts (with what was said), plan | ledger, ledger, final answer
    assert seen == [1, 3, 2, 4, 4, 6, 2, 4, 4]
    assert "FACTS" in str(model.create_calls[4]["messages"][-1].content)


@pytest.mark.parametrize(
    ("structured", "json_output", "asked"),
    [(True, True, "LedgerEntry"), (False, True, True), (False, False, None)],
)
async def test_the_ledger_is_asked_for_as_the_model_can(
    structured: bool, json_output: bool, asked: Any
) -> None:
    info = ModelInfo(
        vision=False,
        function_calling=True,
        json_output=json_output,
        family=ModelFamily.UNKNOWN,
        structured_output=structured,
    )
    answers = ["facts", "plan", ledger(), ledger(done=True), "x"]
    model = ReplayChatCompletionClient(answers, info)
    await MagenticOneGroupChat([Parrot("ann"), Parrot("bob")], model).run(task="Find it.")
    given = [call.get("json_output") for call in model.create_calls]
    assert [one.__name__ if isinstance(one, type) else one for one in given] == [
        None,
        None,
        asked,
        asked,
        None,
    ]
    if structured:
        asked_for: Any = given[2]
        schema = class_format(asked_for)["json_schema"]
        assert schema["schema"]["$defs"]["Speaker"]["properties"]["answer"]["enum"] == ["ann", "bob"]
        assert schema["strict"]


async def test_a_model_that_cannot_see_gets_no_pictures() -> None:
    class Painter(Parrot):
        def message(self, content: str) -> MultiModalMessage:
            return MultiModalMessage(
                content=["Look:", Image(url="https://example.org/a.png")], source=self.name
            )

    info = ModelInfo(
        vision=False,
        function_calling=True,
        json_output=True,
        family=ModelFamily.UNKNOWN,
        structured_output=True,
    )
    model = ReplayChatCompletionClient(["facts", "plan", ledger(), ledger(done=True), "x"], info)
    await MagenticOneGroupChat([Painter("ann")], model).run(task="Find it.")
    assert model.create_calls[3]["messages"][2].content == "Look:\n<image>"


async def test_a_final_answer_prompt_of_your_own() -> None:
    model = ReplayChatCompletionClient(["facts", "plan", ledger(), ledger(done=True), "x"])
    team = MagenticOneGroupChat([Parrot("ann")], model, final_answer_prompt='Answer {task} as {"json": true}')
    await team.run(task="Find it.")
    assert model.create_calls[-1]["messages"][-1].content == 'Answer Find it. as {"json": true}'


async def test_readers_see_who_is_next() -> None:
    team, _ = team_of("facts", "plan", ledger("bob"), ledger(done=True), "x", emit_team_events=True)
    shown = await shown_by(team, "Find it.")
    assert [item.content for item in shown if isinstance(item, SelectSpeakerEvent)] == [["bob"]]


# One run after the other


async def test_a_new_task_begins_with_a_new_plan_and_counts_anew() -> None:
    answers = ["facts", "plan", ledger(), ledger(), "x"]
    team, (ann, _) = team_of(*answers, *answers, max_turns=1)
    await team.run(task="Find it.")
    result = await team.run(task="And that.")
    assert short(speakers_of(result)) == "user boss boss ann boss ann boss"
    assert "And that." in ann.heard[2][0]
    assert "Find it." not in ann.heard[2][0]


async def test_without_a_task_it_goes_on() -> None:
    condition = MaxMessageTermination(2)
    team, _ = team_of(
        "facts", "plan", ledger(), ledger("bob"), ledger(done=True), "x", termination_condition=condition
    )
    await team.run(task="Find it.")
    condition_free = await team.run()
    assert short(speakers_of(condition_free)) == "boss bob boss"


async def test_it_does_not_begin_without_a_task() -> None:
    team, _ = team_of()
    with pytest.raises(SpeakerChoiceError, match="needs a task"):
        await team.run()
    await team.reset()
    with pytest.raises(ValueError, match="needs a task"):
        await team.run()


# Failures


async def test_a_ledger_that_can_never_be_read_ends_the_run() -> None:
    model = ReplayChatCompletionClient(["facts", "plan", ledger()], default="?")
    team = MagenticOneGroupChat([Parrot("ann")], model)
    with pytest.raises(TeamRunError, match=r"Failed to parse ledger information after multiple retries\."):
        await team.run(task="Find it.")
    asked = model.create_calls[3:]
    assert len(asked) == 5
    assert len({str(call["messages"]) for call in asked}) == 5, "none is asked twice"
    assert "That can't be used: it is not JSON." in str(asked[-1]["messages"][-1].content)


async def test_a_ledger_that_was_cut_off_is_asked_for_with_the_reason() -> None:
    cut = BadResponseError("m", "the answer is no LedgerEntry; it was cut off at the limit of tokens")
    model = ReplayChatCompletionClient(["facts", "plan", cut, ledger(), ledger(done=True), "x"])
    await MagenticOneGroupChat([Parrot("ann")], model).run(task="Find it.")
    assert "it was cut off at the limit of tokens" in str(model.create_calls[3]["messages"][-1].content)


async def test_its_messages_carry_what_the_model_used() -> None:
    model = ReplayChatCompletionClient(["facts", "plan", ledger(), ledger(done=True), "The answer."])
    result = await MagenticOneGroupChat([Parrot("ann")], model).run(task="Find it.")
    used = [one.models_usage for one in result.messages if one.source == BOSS]
    assert all(one is not None for one in used)
    assert sum(filter(None, used), RequestUsage(0, 0)) == model.total_usage()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("coder", "coder"),
        ("Coder", "coder"),
        (" the coder.", "coder"),
        ("Coder Agent", "coder"),
        ("web_surfr", "web_surfer"),
        ("coder or web_surfer", "coder or web_surfer"),
        ("eve", "eve"),
        (3, 3),
        ("", ""),
    ],
)
def test_a_name_that_is_nearly_right(text: Any, name: Any) -> None:
    assert nearest(["coder", "web_surfer"], text) == name


async def test_a_failed_model_call_leaves_nothing_behind() -> None:
    team, (ann, _) = team_of("facts", "plan")
    with pytest.raises(BadRequestError):
        await team.run(task="Find it.")
    assert ann.heard == []
    assert (await team.save_state())["agent_states"][BOSS]["task"] == ""


async def test_plan_after_plan_ends() -> None:
    def answer(messages: Any) -> str:
        return ledger(progress=False) if "is_in_loop" in str(messages[-1].content) else "text"

    model = ReplayChatCompletionClient([], default=answer)
    team = MagenticOneGroupChat([Parrot("ann")], model, max_turns=None, max_stalls=1)
    result = await team.run(task="Find it.")
    assert result.stop_reason == "No progress after 10 plans."
    assert short(speakers_of(result)) == "user boss boss"
