"""Section 2.2 of the reference: who speaks next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.groupchat import (
    GroupChat,
    GroupChatDeclarationError,
    NoEligibleSpeakerError,
    SelectionContext,
    UndefinedNextAgentError,
)
from callboard.models import AssistantMessage, ReplayChatCompletionClient, SystemMessage, UserMessage
from tests.helpers.group_chats import Scripted, a_group, a_manager, agents, an_agent

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}


async def chosen(chat: GroupChat, last: str = "a", *answers: Any) -> str:
    speaker = chat.agent_by_name(last) or an_agent(last)
    return (await chat.a_select_speaker(speaker, a_manager(chat, *answers))).name


# A function


async def test_an_agent_of_the_group_is_taken_as_it_is() -> None:
    a, b, c = agents()
    chat = GroupChat(
        [a, b, c],
        speaker_selection_method=lambda last, chat: last,
        allowed_or_disallowed_speaker_transitions={a: [b]},
        speaker_transitions_type="allowed",
        eligibility_policies=[Only("b")],
    )
    assert await chosen(chat, "a") == "a"


async def test_a_function_may_be_async_and_is_given_the_last_speaker_and_the_chat() -> None:
    seen = []

    async def choose(last: Any, chat: GroupChat) -> Any:
        seen.append((last.name, chat))
        return chat.agents[2]

    chat = a_group(speaker_selection_method=choose)
    assert await chosen(chat, "b") == "c"
    assert seen == [("b", chat)]


async def test_nobody_ends_the_chat() -> None:
    with pytest.raises(NoEligibleSpeakerError):
        await chosen(a_group(speaker_selection_method=lambda last, chat: None))


@pytest.mark.parametrize("choice", [an_agent("outside"), 1, "sometimes"], ids=["outside", "number", "method"])
async def test_what_a_function_may_not_return(choice: Any) -> None:
    with pytest.raises(GroupChatDeclarationError) as caught:
        await chosen(a_group(speaker_selection_method=lambda last, chat: choice))
    assert isinstance(caught.value, ValueError)


async def test_a_function_may_name_a_method() -> None:
    assert await chosen(a_group(speaker_selection_method=lambda last, chat: "Round_Robin"), "b") == "c"


# The methods


async def test_an_unknown_method_is_an_error_only_now() -> None:
    with pytest.raises(ValueError, match="sometimes"):
        await chosen(a_group(speaker_selection_method="sometimes"))


@pytest.mark.parametrize("names", ["", "a"])
async def test_a_group_needs_two(names: str) -> None:
    with pytest.raises(ValueError, match="underpopulated"):
        await chosen(a_group(names))


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({"speaker_selection_method": "random"}, True),
        ({"speaker_selection_method": "round_robin"}, False),
        ({"speaker_selection_method": "random", "allow_repeat_speaker": False}, False),
    ],
)
async def test_two_are_few(options: dict[str, Any], warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    await chosen(a_group("ab", **options))
    assert ("underpopulated" in caplog.text) is warns


@pytest.mark.parametrize(("last", "following"), [("a", "b"), ("b", "c"), ("c", "a"), ("outside", "a")])
@pytest.mark.parametrize("method", ["round_robin", "ROUND_ROBIN"])
async def test_round_robin(method: str, last: str, following: str) -> None:
    assert await chosen(a_group(speaker_selection_method=method), last) == following


async def test_random_is_one_who_may() -> None:
    chat = a_group("abcd", speaker_selection_method="random", allow_repeat_speaker=False)
    assert {await chosen(chat) for _ in range(100)} == {"b", "c", "d"}


@pytest.mark.parametrize(
    ("last", "among", "expected"),
    [("a", "abc", "b"), ("a", "ac", "c"), ("c", "bc", "b"), ("a", "a", "a"), ("outside", "cb", "b")],
)
def test_next_agent(last: str, among: str, expected: str) -> None:
    chat = a_group()
    speaker = chat.agent_by_name(last) or an_agent(last)
    group = [agent for agent in chat.agents if agent.name in among]
    assert chat.next_agent(speaker, group).name == expected


def test_next_agent_needs_somebody_of_the_group() -> None:
    chat = a_group()
    for among in ([], [an_agent("outside")], [chat.agents[0], an_agent("outside")]):
        with pytest.raises(UndefinedNextAgentError):
            chat.next_agent(chat.agents[0], among)


# Rules


def with_functions(**functions: str) -> GroupChat:
    group = [
        an_agent(name, function_map=dict.fromkeys(functions.get(name, "").split(), print)) for name in "abc"
    ]
    return GroupChat(
        group,
        [{"role": "assistant", "content": "", "tool_calls": [CALL]}],
        speaker_selection_method="round_robin",
    )


@pytest.mark.parametrize(
    ("functions", "last", "expected"),
    [
        ({"c": "add"}, "a", "c"),
        ({"b": "add", "c": "add"}, "b", "c"),
        ({"a": "add"}, "a", "a"),
        ({"c": "other"}, "a", "c"),
    ],
)
async def test_who_can_execute_a_function_speaks(functions: dict[str, str], last: str, expected: str) -> None:
    assert await chosen(with_functions(**functions), last) == expected


async def test_an_old_function_call_counts_as_well() -> None:
    chat = with_functions(c="add")
    chat.messages = [
        {"role": "assistant", "content": "", "function_call": {"name": "add", "arguments": "{}"}}
    ]
    assert await chosen(chat) == "c"


async def test_somebody_has_to_execute_functions() -> None:
    with pytest.raises(ValueError, match="add"):
        await chosen(with_functions())


async def test_the_filter_can_be_left_out() -> None:
    chat = with_functions(c="add")
    chat.func_call_filter = False
    assert await chosen(chat) == "b"


async def test_who_may_not_repeat_does_not_even_for_a_function() -> None:
    chat = with_functions(a="add")
    chat.allow_repeat_speaker = False
    with pytest.raises(NoEligibleSpeakerError):
        await chosen(chat, "a")


def with_transitions(transitions: dict[str, str], **options: Any) -> GroupChat:
    group = {agent.name: agent for agent in agents()}
    given: Any = {group[name]: [group[other] for other in others] for name, others in transitions.items()}
    return GroupChat(
        list(group.values()),
        allowed_or_disallowed_speaker_transitions=given,
        speaker_transitions_type="allowed",
        **{"speaker_selection_method": "round_robin", **options},
    )


@pytest.mark.parametrize(("last", "expected"), [("a", "c"), ("c", "a"), ("outside", "a")])
async def test_transitions_say_who_follows(last: str, expected: str) -> None:
    assert await chosen(with_transitions({"a": "c", "c": "ab", "b": ""}), last) == expected


@pytest.mark.parametrize("transitions", [{"a": "b"}, {"a": "b", "b": ""}], ids=["no key", "empty list"])
async def test_an_agent_without_transitions_is_the_end(transitions: dict[str, str]) -> None:
    with pytest.raises(NoEligibleSpeakerError):
        await chosen(with_transitions(transitions), "b")


async def test_one_who_is_left_speaks_and_nobody_is_asked(stream: Scripted) -> None:
    for method in ("manual", "auto"):
        assert await chosen(with_transitions({"a": "c"}, speaker_selection_method=method)) == "c"
    assert not stream.questions


class Only:
    def __init__(self, names: str) -> None:
        self.names = names
        self.contexts: list[SelectionContext] = []

    def is_eligible(self, agent: Any, ctx: SelectionContext) -> bool:
        self.contexts.append(ctx)
        return agent.name in self.names


@pytest.mark.parametrize(("policies", "expected"), [(["bc", "c"], "c"), (["ab"], "b")])
async def test_all_policies_have_to_agree(policies: Sequence[str], expected: str) -> None:
    assert await chosen(a_group(eligibility_policies=[Only(names) for names in policies])) == expected


async def test_a_policy_is_told_how_it_stands() -> None:
    policy = Only("c")
    chat = a_group(eligibility_policies=[policy])
    chat.append({"role": "user", "content": "hi"}, chat.agents[0])
    await chosen(chat)
    assert policy.contexts[0] == SelectionContext(1, "a", ("a", "b", "c"))


async def test_policies_that_leave_nobody_end_the_chat() -> None:
    with pytest.raises(NoEligibleSpeakerError):
        await chosen(a_group(eligibility_policies=[Only("ab"), Only("c")]))


# A person


@pytest.mark.parametrize(
    "method", ["manual", "MANUAL", lambda last, chat: "manual"], ids=["lower", "upper", "function"]
)
@pytest.mark.parametrize(
    ("answers", "expected", "events"),
    [
        (["3"], "c", []),
        (["1"], "a", []),
        ([""], "b", []),
        (["q"], "b", []),
        (["x", "3"], "c", ["select_speaker_invalid_input"]),
        (["0", "4"], "b", ["select_speaker_invalid_input"] * 2 + ["select_speaker_try_count_exceeded"]),
    ],
)
async def test_a_person_chooses(
    method: Any, answers: list[str], expected: str, events: list[str], stream: Scripted
) -> None:
    stream.answers = list(answers)
    assert await chosen(a_group(speaker_selection_method=method)) == expected
    assert stream.kinds == ["select_speaker", *events]
    assert not stream.answers


# A model


@pytest.mark.parametrize(
    ("answers", "retries", "expected", "calls"),
    [
        (["b"], 2, "b", 1),
        (["c, please. c!"], 2, "c", 1),
        (["a and b", "b"], 2, "b", 2),
        (["?", "c"], 2, "c", 2),
        (["?", "?", "?"], 2, "b", 3),
        (["a and b"], 0, "b", 1),
        ([""], 0, "b", 1),
        (["nobody"], 0, "b", 1),
    ],
)
async def test_a_model_chooses(answers: list[str], retries: int, expected: str, calls: int) -> None:
    chat = a_group(speaker_selection_method="auto", max_retries_for_selecting_speaker=retries)
    model = ReplayChatCompletionClient(list(answers))
    manager = a_manager(chat, llm_config=model)
    assert (await chat.a_select_speaker(chat.agents[0], manager)).name == expected
    assert len(model.create_calls) == calls


async def test_what_the_model_reads() -> None:
    chat = a_group(
        speaker_selection_method="auto",
        select_speaker_message_template="{roles}|{agentlist}",
        select_speaker_prompt_template="who of {agentlist}? {x}",
        select_speaker_auto_multiple_template="one of {agentlist}",
        select_speaker_auto_none_template="none of {agentlist}",
    )
    chat.append({"role": "user", "content": "hi"}, chat.agents[0])
    model = ReplayChatCompletionClient(["a b", "?", "c"])
    await chat.a_select_speaker(chat.agents[0], a_manager(chat, llm_config=model))
    first, second, third = (call["messages"] for call in model.create_calls)
    names = "['a', 'b', 'c']"
    assert first == [
        SystemMessage(content=f"a: the agent a\nb: the agent b\nc: the agent c|{names}"),
        UserMessage(content="hi", source="a"),
        SystemMessage(content=f"who of {names}? {{x}}"),
    ]
    assert [len(first), len(second), len(third)] == [3, 5, 7]
    assert second[3:] == [
        AssistantMessage(content="a b", source="speaker_selection_agent"),
        SystemMessage(content=f"one of {names}"),
    ]
    assert third[6] == SystemMessage(content=f"none of {names}")


async def test_the_role_and_the_last_message_in_place_of_a_prompt() -> None:
    chat = a_group(
        speaker_selection_method="auto",
        role_for_select_speaker_messages="user",
        select_speaker_prompt_template=None,
    )
    chat.append({"role": "user", "content": "hi"}, chat.agents[0])
    model = ReplayChatCompletionClient(["?", "c"])
    await chat.a_select_speaker(chat.agents[0], a_manager(chat, llm_config=model))
    second = model.create_calls[1]["messages"]
    assert [message.content for message in second[1:3]] == ["hi", "hi"]
    assert isinstance(second[4], UserMessage)


async def test_calls_of_the_last_message_are_left_out() -> None:
    chat = a_group(speaker_selection_method="auto", func_call_filter=False)
    chat.append({"role": "assistant", "content": "adds", "tool_calls": [CALL]}, chat.agents[0])
    model = ReplayChatCompletionClient(["c"])
    await chat.a_select_speaker(chat.agents[0], a_manager(chat, llm_config=model))
    assert model.create_calls[0]["messages"][1].content == "adds"


async def test_a_stray_brace_in_the_system_message_is_an_error_now() -> None:
    chat = a_group(speaker_selection_method="auto", select_speaker_message_template="{x}")
    with pytest.raises(KeyError):
        await chosen(chat, "a", "b")


async def test_there_has_to_be_a_model() -> None:
    with pytest.raises(ValueError, match="model"):
        await chosen(a_group(speaker_selection_method="auto"))


async def test_the_group_chat_may_have_a_model_of_its_own() -> None:
    chat = a_group(
        speaker_selection_method="auto", select_speaker_auto_llm_config=ReplayChatCompletionClient(["c"])
    )
    assert await chosen(chat, "a", "b") == "c"


async def test_such_a_model_is_made_once_and_counts_under_its_own_name() -> None:
    config = {"config_list": [{"model": "small", "model_client_cls": "Counted"}]}
    chat = a_group(
        speaker_selection_method="auto",
        select_speaker_auto_llm_config=config,
        select_speaker_auto_model_client_cls=Counted,
    )
    manager = a_manager(chat, "b")
    for _ in range(2):
        await chat.a_select_speaker(chat.agents[0], manager)
    assert Counted.made == 1
    assert set(manager.usage.cached) == {"small"}


class Counted(ReplayChatCompletionClient):
    made = 0

    def __init__(self, model: str) -> None:
        super().__init__([], default="c", model=model)
        Counted.made += 1


class Custom(ReplayChatCompletionClient):
    def __init__(self, model: str) -> None:
        super().__init__(["c"], model=model)


@pytest.mark.parametrize(
    ("classes", "error"),
    [
        (Custom, None),
        ([Custom], None),
        (None, ValueError),
        ([], ValueError),
        ([Custom, Custom], RuntimeError),
        ([ReplayChatCompletionClient], ValueError),
    ],
)
async def test_the_config_may_name_a_class(classes: Any, error: type[Exception] | None) -> None:
    chat = a_group(
        speaker_selection_method="auto",
        select_speaker_auto_llm_config={"config_list": [{"model": "m", "model_client_cls": "Custom"}]},
        select_speaker_auto_model_client_cls=classes,
    )
    if error is None:
        assert await chosen(chat) == "c"
    else:
        with pytest.raises(error):
            await chosen(chat)


async def test_what_the_model_used_counts_for_the_manager() -> None:
    chat = a_group(speaker_selection_method="auto")
    manager = a_manager(chat, "?", "b")
    await chat.a_select_speaker(chat.agents[0], manager)
    cost = manager.usage.cost()["usage_including_cached_inference"]
    assert cost["replay"]["completion_tokens"] == 2


async def test_attempts_are_shown_when_asked_for(stream: Scripted) -> None:
    chat = a_group(speaker_selection_method="auto", select_speaker_auto_verbose=True)
    await chosen(chat, "a", "a b", "b")
    assert [(event.attempt, list(event.mentions)) for event in stream.only("speaker_attempt")] == [
        (1, ["a", "b"]),
        (2, ["b"]),
    ]


async def test_transforms_change_what_the_model_reads() -> None:
    from callboard.groupchat import MessageHistoryLimiter, TransformMessages

    chat = a_group(
        speaker_selection_method="auto",
        select_speaker_transform_messages=TransformMessages([MessageHistoryLimiter(max_messages=2)]),
    )
    for text in ("one", "two", "three"):
        chat.append({"role": "user", "content": text}, chat.agents[0])
    model = ReplayChatCompletionClient(["c"])
    await chat.a_select_speaker(chat.agents[0], a_manager(chat, llm_config=model))
    read = model.create_calls[0]["messages"]
    assert [type(read[0]), read[1].content, len(read)] == [SystemMessage, "three", 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bob", {"bob": 1}),
        ("bob's turn, bob", {"bob": 2}),
        ("Bob", {}),
        ("bobby", {}),
        ("", {}),
        (None, {}),
        ("data_wiz", {"data_wiz": 1}),
        ("data wiz", {"data_wiz": 1}),
        (r"data\_wiz", {"data_wiz": 1}),
        ({"content": "(bob) and data_wiz."}, {"bob": 1, "data_wiz": 1}),
        ([{"type": "text", "text": "bob"}], {"bob": 1}),
    ],
)
def test_mentions(text: Any, expected: dict[str, int]) -> None:
    chat = a_group(["bob", "data_wiz"])
    assert chat._mentioned_agents(text, None) == expected
