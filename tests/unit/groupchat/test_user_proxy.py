"""AG2's two agents: one with a model, and one with a person."""

from __future__ import annotations

import pytest

from callboard.groupchat import AssistantAgent, GroupChatDeclarationError, UserProxyAgent
from callboard.models import ReplayChatCompletionClient
from tests.helpers.group_chats import Scripted, said


def test_a_person_asks_an_assistant(stream: Scripted) -> None:
    stream.answers = ["And 3 * 3?", "exit"]
    assistant = AssistantAgent("assistant", llm_config=ReplayChatCompletionClient(["It is 4.", "It is 9."]))
    user = UserProxyAgent("user", code_execution_config=False)
    result = user.initiate_chat(assistant, message="What is 2 * 2?", silent=True)
    assert said(result.chat_history) == [
        ("user", "What is 2 * 2?"),
        ("assistant", "It is 4."),
        ("user", "And 3 * 3?"),
        ("assistant", "It is 9."),
    ]


def test_a_user_without_a_person_executes_functions() -> None:
    user = UserProxyAgent("user", human_input_mode="NEVER", function_map={"double": lambda n: 2 * n})
    reply = user.generate_reply(
        messages=[{"role": "assistant", "function_call": {"name": "double", "arguments": '{"n": 4}'}}]
    )
    assert isinstance(reply, dict)
    assert reply["content"] == "8"


def test_what_others_are_told_of_them() -> None:
    assert "solve" in AssistantAgent("a").description.lower()
    assert AssistantAgent("a", "Be brief.").description == "Be brief."
    assert UserProxyAgent("u").description != UserProxyAgent("u", human_input_mode="NEVER").description
    assert UserProxyAgent("u", description="The boss.").description == "The boss."


def test_neither_runs_code() -> None:
    with pytest.raises(GroupChatDeclarationError, match="CodeExecutorAgent"):
        UserProxyAgent("user", code_execution_config={"use_docker": False})
