"""SelectorGroupChat: AutoGen's rules for what a model answers, its functions, its context, its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.agents.base import Said
from callboard.memory.contexts import BufferedChatCompletionContext, UnboundedChatCompletionContext
from callboard.memory.llm_messages import Image, LLMMessage, UserMessage
from callboard.messages import (
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    MultiModalMessage,
    SelectorEvent,
    SelectSpeakerEvent,
    TextMessage,
)
from callboard.models import ModelFamily, ModelInfo, ReplayChatCompletionClient
from callboard.models.errors import BadRequestError
from callboard.teams import (
    SelectorGroupChat,
    SpeakerChoiceError,
    TeamDeclarationError,
    TeamRunError,
)
from callboard.teams.selector import mentions
from tests.helpers.team_members import Parrot, shown_by, speakers_of


def team_of(
    model: ReplayChatCompletionClient, *, names: str = "ann bob cid", **options: Any
) -> SelectorGroupChat:
    return SelectorGroupChat([Parrot(name) for name in names.split()], model, **options)


def replies(*answers: str, family: str = ModelFamily.UNKNOWN) -> ReplayChatCompletionClient:
    info = ModelInfo(
        vision=True, function_calling=True, json_output=True, family=family, structured_output=True
    )
    return ReplayChatCompletionClient(answers, info)


def prompts(model: ReplayChatCompletionClient, call: int = -1) -> list[LLMMessage]:
    asked: list[LLMMessage] = model.create_calls[call]["messages"]
    return asked


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Story_writer", ["Story_writer"]),
        ("I choose Story writer, surely.", ["Story_writer"]),
        (r"**Story\_writer**", ["Story_writer"]),
        ("story_writer", []),
        ("Story_writers", []),
        ("bob", ["bob"]),
        ("bobby", []),
        ("bob_2", []),
        ("bob and Story_writer", ["Story_writer", "bob"]),
        ("", []),
        ("(bob)", ["bob"]),
    ],
)
def test_a_name_counts_as_a_whole_word(text: str, named: list[str]) -> None:
    assert mentions(text, ["Story_writer", "bob"]) == named


@pytest.mark.parametrize(
    ("answers", "options", "speakers"),
    [
        (["bob", "ann"], {}, "user bob ann"),
        # None or several: it is asked again.
        (["none of them", "ann or bob?", "bob", "ann"], {}, "user bob ann"),
        # Who spoke last may not be chosen again, as long as there are attempts.
        (["bob", "bob", "bob", "cid"], {}, "user bob cid"),
        (["bob", "bob", "bob", "bob"], {}, "user bob bob"),
        (["bob", "bob"], {"allow_repeated_speaker": True}, "user bob bob"),
        # Nobody was named in time: the first candidate, or who spoke last.
        (["x", "y", "z", "cid"], {}, "user ann cid"),
        (["x", "y", "z", "x", "y", "z"], {}, "user ann ann"),
        (["x", "x"], {"max_selector_attempts": 1}, "user ann ann"),
        # The model is not asked where there is nothing to choose.
        (["bob"], {"names": "ann bob"}, "user bob ann"),
        ([], {"candidate_func": lambda _: ["cid"]}, "user cid cid"),
        (["ann", "bob"], {"candidate_func": lambda _: ["bob", "cid"]}, "user ann bob"),
    ],
)
async def test_whom_the_model_names_speaks(
    answers: list[str], options: dict[str, Any], speakers: str
) -> None:
    model = replies(*answers)
    result = await team_of(model, max_turns=2, **options).run(task="Begin.")
    assert speakers_of(result) == speakers
    assert len(model.create_calls) == len(answers)


async def test_a_model_that_names_nobody_is_told_what_was_wrong() -> None:
    model = replies("bob", "nobody", "bob or cid", "cid")
    await team_of(model, max_turns=2).run(task="Begin.")
    assert [str(message.content) for message in prompts(model)[1:]] == [
        "nobody",
        "No valid name was mentioned. Please select from: ['ann', 'cid'].",
        "bob or cid",
        "Expected exactly one name to be mentioned. Please select only one from: ['ann', 'cid'].",
    ]


async def test_the_prompt_has_roles_candidates_and_history() -> None:
    model = replies("bob", "cid")
    prompt = "R<{roles}> P<{participants}> H<{history}>"
    await team_of(model, max_turns=2, selector_prompt=prompt).run(task="Begin {now}.")
    (asked,) = prompts(model, 1)
    assert asked == UserMessage(
        content="R<ann: is ann\nbob: is bob\ncid: is cid> P<['ann', 'cid']> "
        "H<user: Begin {now}.\n\n\nbob: bob1 [user:Begin]\n\n>",
        source="user",
    )


@pytest.mark.parametrize(
    ("family", "kind"), [(ModelFamily.GPT_4O, "SystemMessage"), ("other", "UserMessage")]
)
async def test_only_models_of_openai_are_asked_by_a_system_message(family: str, kind: str) -> None:
    model = replies("bob", family=family)
    await team_of(model, max_turns=1).run(task="Begin.")
    assert prompts(model)[0].type == kind


async def test_pictures_are_not_written_out_in_the_prompt() -> None:
    model = replies("bob")
    picture = Image(url="https://example.org/cat.png")
    task = MultiModalMessage(content=["Look:", picture], source="user")
    await team_of(model, max_turns=1, selector_prompt="{history}").run(task=task)
    assert prompts(model)[0].content == "user: Look: [image]\n\n"


@pytest.mark.parametrize("prompt", ["{who}", "{0}", "{roles"])
def test_a_prompt_that_cannot_be_filled_in_is_refused(prompt: str) -> None:
    with pytest.raises(TeamDeclarationError, match=r"roles.*participants.*history"):
        team_of(replies(), selector_prompt=prompt)


def test_one_member_is_not_enough() -> None:
    with pytest.raises(ValueError, match=r"At least two participants are required for SelectorGroupChat\."):
        team_of(replies(), names="ann")


# Functions of the user's


async def test_a_function_chooses_and_may_leave_it_to_the_model() -> None:
    seen: list[int] = []

    def choose(thread: Sequence[Said]) -> str | None:
        seen.append(len(thread))
        return "cid" if thread[-1].source == "user" else None

    result = await team_of(replies("bob"), selector_func=choose, max_turns=2).run(task="Begin.")
    assert speakers_of(result) == "user cid bob"
    assert seen == [1, 2]


async def test_functions_may_be_async() -> None:
    async def choose(thread: Sequence[Said]) -> str | None:
        return "cid" if len(thread) == 1 else None

    async def candidates(thread: Sequence[Said]) -> list[str]:
        return ["ann"]

    team = team_of(replies(), selector_func=choose, candidate_func=candidates, max_turns=2)
    assert speakers_of(await team.run(task="Begin.")) == "user cid ann"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"selector_func": lambda _: "eve"},
            "Selector function returned an invalid speaker name: eve. Expected one of: ['ann', 'bob', 'cid'].",
        ),
        (
            {"candidate_func": lambda _: []},
            "Candidate function must return a non-empty list of participant names.",
        ),
        (
            {"candidate_func": lambda _: ["eve"]},
            "Candidate function returned invalid participant names: ['eve']. Expected one of: ['ann', 'bob', 'cid'].",
        ),
    ],
)
async def test_a_function_that_chooses_nobody_is_an_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(SpeakerChoiceError) as raised:
        await team_of(replies(), **options).run(task="Begin.")
    assert str(raised.value) == text


async def test_a_function_that_fails_later_ends_the_run() -> None:
    def choose(thread: Sequence[Said]) -> str:
        return "ann" if len(thread) == 1 else "eve"

    with pytest.raises(TeamRunError, match="SpeakerChoiceError: Selector function returned"):
        await team_of(replies(), selector_func=choose, max_turns=5).run(task="Begin.")


# Context


def _unbounded() -> UnboundedChatCompletionContext:
    return UnboundedChatCompletionContext([UserMessage(content="Before.", source="old")])


@pytest.mark.parametrize(
    ("context", "histories"),
    [
        (lambda: BufferedChatCompletionContext(1), ["user: Begin.", "bob: bob1 [user:Begin.]"]),
        (_unbounded, ["old: Before.|user: Begin.", "old: Before.|user: Begin.|bob: bob1 [user:Begin.]"]),
    ],
)
async def test_the_model_sees_what_its_context_shows(
    context: Callable[[], Any], histories: list[str]
) -> None:
    model = replies("bob", "cid")
    team = team_of(model, max_turns=2, selector_prompt="{history}", model_context=context())
    await team.run(task="Begin.")
    shown = [str(prompts(model, call)[0].content) for call in (0, 1)]
    assert ["|".join(text.split("\n\n\n")).rstrip() for text in shown] == histories


async def test_what_is_handed_over_is_in_the_context_first() -> None:
    model = replies("bob")
    task = HandoffMessage(
        content="Go.", target="bob", source="user", context=[UserMessage(content="Known.", source="tool")]
    )
    await team_of(model, max_turns=1, selector_prompt="{history}").run(task=task)
    assert prompts(model)[0].content == "tool: Known.\n\n\nuser: Go.\n\n"


async def test_a_second_run_sees_all_of_the_first() -> None:
    model = replies("bob", "ann")
    team = team_of(model, max_turns=1, selector_prompt="{history}")
    await team.run(task="One.")
    await team.run(task="Two.")
    assert [line for line in str(prompts(model)[0].content).split("\n") if line] == [
        "user: One.",
        "bob: bob1 [user:One.]",
        "user: Two.",
    ]


async def test_a_choice_that_fails_adds_nothing_twice() -> None:
    model = replies()
    team = team_of(model, max_turns=1, selector_prompt="{history}")
    with pytest.raises(BadRequestError):
        await team.run(task="One.")
    model.set_default("bob")
    await team.run()
    assert prompts(model)[0].content == "user: One.\n\n"


async def test_reset_empties_the_context() -> None:
    model = replies("bob", "bob")
    team = team_of(model, max_turns=1, selector_prompt="{history}", model_context=_unbounded())
    await team.run(task="One.")
    await team.reset()
    result = await team.run(task="Two.")
    assert prompts(model)[0].content == "user: Two.\n\n"
    assert speakers_of(result) == "user bob"


async def test_conversations_have_contexts_of_their_own() -> None:
    context = UnboundedChatCompletionContext()
    team = team_of(replies("bob"), max_turns=1, model_context=context)
    await team.run(task="One.")
    assert await context.get_messages() == []


# What readers see


async def test_the_task_comes_before_the_choice_of_who_works_on_it() -> None:
    team = team_of(replies("bob"), max_turns=1, emit_team_events=True, model_client_streaming=True)
    result = await team.run(task="Begin.")
    assert [type(message) for message in result.messages] == [
        TextMessage,
        SelectorEvent,
        SelectSpeakerEvent,
        TextMessage,
    ]


async def test_readers_see_the_choice_as_it_is_made() -> None:
    team = team_of(replies("bob it is"), max_turns=1, emit_team_events=True, model_client_streaming=True)
    shown = [
        item for item in await shown_by(team, "Begin.") if not isinstance(item, TaskResult | TextMessage)
    ]
    assert [(type(item), item.source) for item in shown] == [
        *[(ModelClientStreamingChunkEvent, "SelectorGroupChatManager")] * 3,
        (SelectorEvent, "SelectorGroupChatManager"),
        (SelectSpeakerEvent, "SelectorGroupChatManager"),
    ]
    assert "".join(
        str(item.content) for item in shown[:3] if isinstance(item, ModelClientStreamingChunkEvent)
    ) == ("bob it is")


@pytest.mark.parametrize("streaming", [True, False])
async def test_without_events_readers_see_nothing_of_the_choice(streaming: bool) -> None:
    team = team_of(replies("bob"), max_turns=1, model_client_streaming=streaming)
    assert [type(item) for item in await shown_by(team, "Begin.")] == [TextMessage, TextMessage, TaskResult]
