"""A role alone, outside of an environment."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from callboard.agents.base import copy_of
from callboard.models import ReplayChatCompletionClient
from callboard.roles import (
    Action,
    ActionOutput,
    Context,
    Environment,
    EnvironmentStateError,
    Message,
    MessageDataError,
    Role,
    RoleDeclarationError,
    RoleReactMode,
    Task,
    TaskResult,
    UserRequirement,
    any_to_str,
    known_content,
)
from callboard.roles.actor import dump_fields, load_fields


class Tell(Action):
    async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> Any:
        return f"{self.name} heard {len(with_messages or ())}"


class One(Tell):
    pass


class Two(Tell):
    pass


class Three(Tell):
    pass


@known_content
class Data(BaseModel):
    number: int


async def test_one_action_needs_no_model() -> None:
    role = Role(name="Ada", actions=[One()])
    answer = await role.run("hello")
    assert answer is not None
    assert (answer.content, answer.role, answer.sent_from) == ("One heard 1", "assistant", "Ada")
    assert answer.cause_by == any_to_str(One)
    assert role.get_memories() == role.rc.memory.get()
    assert [message.content for message in role.get_memories()] == ["hello", "One heard 1"]
    assert (role.rc.state, role.todo, role.is_idle) == (-1, None, True)
    assert await role.run() is None
    assert await role.run(role.get_memories()) is None  # nothing of it is new


async def test_actions_by_order_are_done_once_each_and_the_last_counts() -> None:
    role = Role(actions=[One(), Two(), Three()])
    role._set_react_mode("by_order")
    answer = await role.run("go")
    assert answer is not None
    assert answer.content == "Three heard 3"
    assert len(role.rc.memory) == 4
    assert role.rc.state == -1
    again = await role.run("go")
    assert again is not None
    assert again.content == "Three heard 7"


async def test_a_model_chooses_the_next_action() -> None:
    client = ReplayChatCompletionClient(["1", "The next one is 0.", "-1", "0"])
    role = Role(name="Ada", profile="clerk", goal="order", context=Context(client), actions=[One(), Two()])
    role._set_react_mode(RoleReactMode.REACT, max_react_loop=5)
    answer = await role.run("go")
    assert answer is not None
    assert [message.content for message in role.get_memories()] == ["go", "Two heard 1", "One heard 2"]
    assert answer.content == "One heard 2"
    asked = client.create_calls[0]["messages"][-1].content
    assert isinstance(asked, str)
    assert "You are Ada the clerk. Your goal: order." in asked
    assert "0. One\n1. Two" in asked


@pytest.mark.parametrize("said", ["7", "none of them", "-1"])
async def test_a_choice_that_is_none_ends_it(said: str) -> None:
    role = Role(context=Context(ReplayChatCompletionClient([said])), actions=[One(), Two()])
    assert await role.run("go") is None
    assert role.rc.state == -1


async def test_a_plan_is_made_and_carried_out() -> None:
    plan = '[{"task_id": "2", "dependent_task_ids": ["1"], "instruction": "eat"}, {"task_id": "1", "instruction": "cook"}]'

    class Cook(Role):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)

        async def _act_on_task(self, current_task: Task) -> TaskResult:
            return TaskResult(
                result=f"{current_task.instruction} done", is_success=current_task.instruction != "eat"
            )

    role = Cook(context=Context(ReplayChatCompletionClient([plan, "no plan"])), actions=[One()])
    role._set_react_mode("plan_and_act")
    answer = await role.run("dinner")
    assert answer is not None
    assert answer.content == "2. eat: eat done\n1. cook: cook done"
    assert answer.cause_by == any_to_str(One)
    with pytest.raises(MessageDataError):
        await role.run("supper")
    with pytest.raises(NotImplementedError, match="_act_on_task"):
        await Role()._act_on_task(Task(task_id="1"))


def test_there_are_three_ways_to_react() -> None:
    assert RoleReactMode.values() == ["react", "by_order", "plan_and_act"]
    with pytest.raises(RoleDeclarationError, match="'jump'") as caught:
        Role()._set_react_mode("jump")
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize(
    ("result", "content", "data"),
    [
        ("text", "text", None),
        (None, "", None),
        (7, "7", None),
        (ActionOutput("text", Data(number=1)), "text", Data(number=1)),
        (Data(number=2), '{"number":2}', Data(number=2)),
    ],
)
async def test_what_an_action_returns_is_made_a_message(result: Any, content: str, data: Any) -> None:
    class Give(Action):
        async def run(self, *args: Any, **kwargs: Any) -> Any:
            return result

    answer = await Role(actions=[Give()]).run("go")
    assert answer is not None
    assert (answer.content, answer.instruct_content) == (content, data)


def test_what_a_role_watches() -> None:
    role = Role()
    assert role.rc.watch == {any_to_str(UserRequirement)}
    assert role.is_watch(any_to_str(UserRequirement))
    role._watch({One, "other"})
    assert role.rc.watch == {any_to_str(One), "other"}
    role.watch([Two], join=True)
    assert (role.rc.watch, role.rc.joined) == ({any_to_str(One), any_to_str(Two), "other"}, {any_to_str(Two)})
    assert Role(watch=[One]).rc.watch == {any_to_str(One)}
    only = Role()
    only._watch([Two], join=True)
    assert only.rc.watch == {any_to_str(Two)}


def test_what_can_not_be_is_said_at_once() -> None:
    with pytest.raises(RoleDeclarationError, match="int is no Action"):
        Role().set_actions([3])  # type: ignore[list-item]
    with pytest.raises(EnvironmentStateError, match="add_roles"):
        Role().rc.env  # noqa: B018
    with pytest.raises(RoleDeclarationError, match="model_client"):
        Context().llm()
    with pytest.raises(RoleDeclarationError, match="'/'"):
        Environment(project="a/b")


async def test_a_person_is_asked_in_an_environment_only() -> None:
    role = Role(is_human=True, actions=[One(), Two()])
    with pytest.raises(EnvironmentStateError, match="add_roles"):
        await role.run("go")


async def test_an_action_without_run_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Action has no run\(\)"):
        await Action().run()


class Counting(Role):
    name: str = "counting"
    seen: set[str] = Field(default_factory=set)
    data: Data = Data(number=0)
    connection: Any = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([One])
        self.connection = lambda: None
        self.noted = [1]


def test_fields_of_its_own_are_kept_and_a_copy_shares_nothing_but_the_context() -> None:
    context = Context()
    role = Counting(context=context)
    role.seen.add("a")
    role.data = Data(number=3)
    kept = dump_fields(role)
    assert kept == {"seen": ["a"], "data": {"number": 3}, "noted": [1]}
    twin = copy_of(Counting(context=context))
    load_fields(twin, {**kept, "gone": 1})
    assert (twin.seen, twin.data) == ({"a"}, Data(number=3))
    assert dump_fields(twin)["noted"] == [1]
    twin.seen.add("b")
    twin.rc.memory.add(Message("x"))
    assert (role.seen, len(role.rc.memory)) == ({"a"}, 0)
    assert twin.context is role.context is context
    assert twin.rc.watch == role.rc.watch
    assert twin.actions[0] is not role.actions[0]
