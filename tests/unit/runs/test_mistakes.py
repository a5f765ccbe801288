"""The first mistakes of those who know AG2, AutoGen or MetaGPT: each is an error that names it and says what to write."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from callboard.agents import AssistantAgent, BaseChatAgent
from callboard.conditions import MaxMessageTermination, TextMentionTermination
from callboard.core.cancellation import CancellationToken
from callboard.errors import MisuseError
from callboard.foundation import CallboardError
from callboard.groupchat import ConversableAgent, GroupChat, UserProxyAgent
from callboard.groupchat.events import value_of
from callboard.models import CreateResult, ReplayChatCompletionClient
from callboard.models.base import ModelRequest
from callboard.roles import Action, Role
from callboard.runs import RoundRobinChatManager, a_run
from callboard.teams import RoundRobinGroupChat


def model(*answers: str) -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient([*answers], default="x")


def mute(name: str, **options: Any) -> ConversableAgent:
    return ConversableAgent(name, human_input_mode="NEVER", **options)


def talker(name: str) -> ConversableAgent:
    return ConversableAgent(name, llm_config=model(), human_input_mode="NEVER")


class ByName(RoundRobinChatManager):
    def get_next_agent(self, response: Any) -> Any:
        return "b"


class Unprepared(BaseChatAgent):
    def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.x = 1

    @property
    def produced_message_types(self) -> Any:
        return ()

    async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Any: ...

    async def on_reset(self, cancellation_token: CancellationToken) -> None: ...


class UnpreparedChatter(ConversableAgent):
    def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.x = 1


class Write(Action):
    async def run(self, *messages: Any) -> str:
        return "x"


class Idle(Role):
    pass


def role(prepare: Callable[[Role], Any]) -> None:
    prepare(Idle(name="n", profile="p"))


class Endless(ReplayChatCompletionClient):
    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        yield "a piece"


async def managed() -> None:
    response = await a_run(talker("a"), talker("b"), message="Hi", chat_manager=ByName(), max_turns=2)
    await response.result()


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "agents without a model": (
        lambda: a_run(mute("a"), mute("b"), message="Hi"),
        "'a' and 'b' can say nothing",
    ),
    "one without a model": (
        lambda: a_run(mute("a"), message="Hi"),
        "'a' can say nothing: give an agent a model",
    ),
    "a chat of two": (lambda: mute("a").a_initiate_chat(mute("b"), message="Hi"), "can say nothing"),
    "a manager that returns a name": (
        managed,
        r"ByName.get_next_agent\(\) returned 'b': return one of the agents",
    ),
    "run(message=)": (lambda: AssistantAgent("a", model()).run(message="Hi"), r"write run\(task=...\)"),  # type: ignore[arg-type]
    "team.run(message=)": (
        lambda: RoundRobinGroupChat([AssistantAgent("a", model())]).run(message="Hi"),  # type: ignore[arg-type]
        r"write run\(task=...\)",
    ),
    "no super().__init__": (lambda: RoundRobinGroupChat([Unprepared()]), r"super\(\).__init__\(name, ...\)"),
    "no super().__init__ in a chat": (
        lambda: talker("b").a_initiate_chat(UnpreparedChatter(), message="Hi"),
        r"super\(\).__init__\(name, ...\)",
    ),
    "memory of something else": (
        lambda: AssistantAgent("a", model(), memory=[object()]),  # type: ignore[list-item]
        r"<object object .*memory=\[ListMemory\(\)\]",
    ),
    "tools that are no list": (lambda: AssistantAgent("a", model(), tools=print), r"write tools=\[...\]"),  # type: ignore[arg-type]
    "a group chat as the other one": (
        lambda: talker("a").a_initiate_chat(GroupChat([talker("b")]), message="Hi"),  # type: ignore[arg-type]
        r"give GroupChatManager\(...\) of it",
    ),
    "watch of one class": (lambda: role(lambda one: one._watch(Write)), r"write self.watch\(\[Write\]\)"),  # type: ignore[arg-type]
    "one action": (lambda: role(lambda one: one.set_actions(Write)), r"write self.set_actions\(\[Write\]\)"),  # type: ignore[arg-type]
    "a role without an action": (
        lambda: Idle(name="n", profile="p").run("Hi"),
        "it has no action: write self.set_actions",
    ),
    "a number as text": (lambda: MaxMessageTermination("3"), "a number, at least 1"),  # type: ignore[arg-type]
    "several texts": (lambda: TextMentionTermination(["A"]), "for several"),  # type: ignore[arg-type]
    "a client whose stream has no end": (
        lambda: AssistantAgent("a", Endless([]), model_client_stream=True).run(task="Hi"),
        "has to be a CreateResult",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_is_named_and_what_to_write_instead(mistake: str) -> None:
    attempt, says = MISTAKES[mistake]
    with pytest.raises(CallboardError, match=says):
        await value_of(attempt())


@pytest.mark.parametrize(
    "agent",
    [
        talker("a"),
        mute("a", default_auto_reply="Hi"),
        mute("a", function_map={"f": print}),
        UserProxyAgent("a"),
        ConversableAgent("a", human_input_mode="TERMINATE"),
    ],
)
def test_who_can_say_something_is_not_mute(agent: ConversableAgent) -> None:
    assert not agent.is_mute


def test_an_agent_with_a_reply_function_is_not_mute() -> None:
    agent = mute("a")
    agent.register_reply(None, lambda *_, **__: (True, "Hi"))
    assert not agent.is_mute


def test_what_is_missing_in_an_agent_that_was_set_up_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="'ConversableAgent' object has no attribute 'speek'") as caught:
        talker("a").speek  # noqa: B018
    assert not isinstance(caught.value, MisuseError)
