from __future__ import annotations

import json
from copy import copy, deepcopy
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from callboard import BaseAgent, Log, MessageContext
from callboard.broker.outcome import LogChange
from callboard.core.state import (
    Snapshot,
    dump_logs,
    dump_state,
    go_back,
    log_changes,
    restore_state,
    settle_logs,
    snapshot,
)
from callboard.errors import StateError


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Silent(BaseAgent):
    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        return None


class Keeper(Silent):
    def __init__(self) -> None:
        super().__init__("keeps")
        self.stored: dict[str, list[bytes]] = {}  # what a server would have

    class State(BaseModel):
        title: str = ""
        words: Log[str] = Log()
        pets: Log[Annotated[Cat | Dog, Field(discriminator="kind")]] = Log()


def commit(agent: Keeper) -> list[LogChange] | None:
    changes = log_changes(agent, is_changed=False)
    for field, dropped, appended in changes or ():
        agent.stored[field] = [*agent.stored.get(field, [])[dropped:], *appended]
    settle_logs(agent)
    return changes


# A log


def test_it_reads_like_a_list() -> None:
    log = Log(["a", "b", "c"])
    log.append("d")
    log.extend(("e", "f"))
    assert list(log) == log == ["a", "b", "c", "d", "e", "f"]
    assert (len(log), log[0], log[-1], log[1:3], log[-2:]) == (6, "a", "f", ["b", "c"], ["e", "f"])
    assert "c" in log
    assert next(reversed(log)) == "f"
    assert repr(Log([1])) == "Log([1])"
    assert Log([1]) == Log([1]) != Log([2])
    with pytest.raises(IndexError):
        log[6]


def test_it_can_be_added_to_itself() -> None:
    log = Log("ab")
    log.extend(log)
    assert log == ["a", "b", "a", "b"]


def test_it_is_trimmed_at_its_beginning() -> None:
    log = Log(range(5))
    log.extend(item + 5 for item in log[:])
    log.trim(keep=20)
    assert len(log) == 10
    log.trim(keep=3)
    assert list(log) == [7, 8, 9]
    log.clear()
    assert not log
    with pytest.raises(ValueError, match="0 or more"):
        log.trim(keep=-1)


def test_copies_go_their_own_way() -> None:
    log = Log([[1]])
    for other in (copy(log), deepcopy(log)):
        other.append([2])
    assert log == [[1]]
    deepcopy(log)[0].append(2)
    assert log == [[1]]


# A field of a model


def test_a_default_is_shared_by_nobody() -> None:
    one, two = Keeper.State(), Keeper.State()
    one.words.append("x")
    assert two.words == []


def test_a_model_reads_and_writes_it_as_a_list() -> None:
    state = Keeper.State.model_validate_json('{"words":["a"],"pets":[{"kind":"dog","name":"Rex"}]}')
    assert state.words == ["a"]
    assert state.pets == [Dog(name="Rex")]
    assert Keeper.State.model_validate(state.model_dump()) == state
    assert Keeper.State.model_validate_json(state.model_dump_json()) == state
    words = Log(["b"])
    assert Keeper.State(words=words).words is words
    with pytest.raises(ValidationError):
        Keeper.State.model_validate({"words": [1]})
    assert Keeper.State.model_json_schema()["properties"]["words"]["items"] == {"type": "string"}


def test_further_inside_it_is_an_ordinary_list() -> None:
    class Deep(Silent):
        class State(BaseModel):
            inner: Keeper.State = Keeper.State()

    agent = Deep()
    agent.state.inner.words.append("x")
    assert dump_state(agent) == b'{"inner":{"title":"","words":["x"],"pets":[]}}'
    assert log_changes(agent, is_changed=False) is None


# What a commit carries


def test_a_commit_carries_what_is_new() -> None:
    agent = Keeper()
    assert dump_state(agent) == b'{"title":""}'
    assert commit(agent) is None
    agent.state.words.extend(["a", "b"])
    agent.state.pets.append(Cat())
    assert commit(agent) == [
        LogChange("words", 0, (b'"a"', b'"b"')),
        LogChange("pets", 0, (b'{"kind":"cat","lives":9}',)),
    ]
    assert commit(agent) is None
    agent.state.words.append("c")
    assert dump_state(agent) == b'{"title":""}'
    assert commit(agent) == [LogChange("words", 0, (b'"c"',))]
    assert log_changes(agent, is_changed=True) == []
    assert dump_logs(agent) == {"words": (b'"a"', b'"b"', b'"c"'), "pets": (b'{"kind":"cat","lives":9}',)}


def test_what_was_appended_and_trimmed_at_once_is_never_written() -> None:
    agent = Keeper()
    agent.state.words.extend("abc")
    commit(agent)
    agent.state.words.extend("def")
    agent.state.words.trim(keep=2)
    assert commit(agent) == [LogChange("words", 3, (b'"e"', b'"f"'))]
    agent.state.words.trim(keep=1)
    assert commit(agent) == [LogChange("words", 1, ())]
    agent.state.words.clear()
    agent.state.words.append("g")
    assert commit(agent) == [LogChange("words", 1, (b'"g"',))]
    assert agent.stored["words"] == [b'"g"']


@pytest.mark.parametrize("how", ["log", "state"])
def test_another_log_in_its_place_replaces_all_of_it(how: str) -> None:
    agent = Keeper()
    agent.state.words.extend("abc")
    commit(agent)
    if how == "log":
        agent.state.words = Log(agent.state.words[-1:])
    else:
        agent.state = Keeper.State(words=Log("c"))
    restore_state(agent, b"{}")
    assert agent.state.words == ["a", "b", "c"], "its handler failed"
    agent.state.words = Log("x")
    assert commit(agent) == [LogChange("words", 3, (b'"x"',))]
    agent.state.words.append("y")
    assert commit(agent) == [LogChange("words", 0, (b'"y"',))]
    assert agent.stored["words"] == [b'"x"', b'"y"']


def test_a_default_with_items_is_written_with_the_first_change() -> None:
    class Greeting(Silent):
        class State(BaseModel):
            title: str = ""
            words: Log[str] = Log(["hello"])

    for change, expected in (
        (lambda log: None, (b'"hello"',)),
        (lambda log: log.append("x"), (b'"hello"', b'"x"')),
        (lambda log: log.clear(), ()),
    ):
        agent = Greeting()
        assert log_changes(agent, is_changed=bool(agent.state.title)) is None
        change(agent.state.words)
        assert log_changes(agent, is_changed=True) == [LogChange("words", 0, expected)]


def test_something_else_in_its_place_is_refused() -> None:
    agent = Keeper()
    agent.state.words = ["a"]
    with pytest.raises(StateError, match="words has to stay a Log"):
        log_changes(agent, is_changed=False)


@pytest.mark.parametrize("item", [1, None, Cat()])
def test_an_item_of_another_type_is_refused(item: Any) -> None:
    agent = Keeper()
    agent.state.words.append(item)
    with pytest.raises(StateError, match="an item of words can't be stored"):
        log_changes(agent, is_changed=False)


def test_items_are_written_as_fields_of_the_model_are() -> None:
    class Raw(Silent):
        class State(BaseModel):
            model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
            parts: Log[bytes] = Log()
            ratios: Log[float] = Log()
            things: Log = Log()  # type: ignore[type-arg]

    agent = Raw()
    agent.state.parts.append(b"\xff")
    agent.state.things.extend([1, "x", {"a": [None]}])
    changes = log_changes(agent, is_changed=False)
    assert changes is not None
    assert changes[0] == LogChange("parts", 0, (b'"_w=="',))
    restore_state(agent, b"{}", {field: appended for field, _, appended in changes})
    assert agent.state.parts == [b"\xff"]
    assert agent.state.things == [1, "x", {"a": [None]}]
    agent.state.ratios.append(float("nan"))
    with pytest.raises(StateError, match="ratios"):
        log_changes(agent, is_changed=False)


# What comes back


def test_a_failed_handler_leaves_it_as_it_was() -> None:
    agent = Keeper()
    thread = agent.state.words
    thread.extend("abc")
    commit(agent)
    for change in (
        lambda: thread.append("d"),
        lambda: thread.trim(keep=1),
        thread.clear,
        lambda: (thread.trim(keep=2), thread.append("d"), thread.trim(keep=1)),
    ):
        change()
        restore_state(agent, b'{"title":"t"}')
        assert agent.state.words is thread
        assert list(thread) == ["a", "b", "c"]
        assert commit(agent) is None
    thread.append("d")
    assert commit(agent) == [LogChange("words", 0, (b'"d"',))]


def test_who_keeps_hold_of_a_log_keeps_hold_of_it() -> None:
    """A model context that was made with it in `__init__`, before anything was loaded."""
    agent = Keeper()
    thread = agent.state.words
    restore_state(agent, b'{"title":"t"}', {"words": [b'"a"']})
    assert (agent.state.title, agent.state.words, agent.state.words is thread) == ("t", ["a"], True)
    restore_state(agent, None, {})
    assert (agent.state.title, agent.state.words, agent.state.words is thread) == ("", [], True)


def test_a_savepoint_within_a_handler() -> None:
    """As for requests that come in while a handler waits."""
    agent = Keeper()
    agent.state.words.extend("ab")
    commit(agent)
    agent.state.words.append("outer")
    agent.state.words.trim(keep=2)
    before = snapshot(agent)
    agent.state.title = "changed"
    agent.state.words.clear()
    agent.state.words.append("inner")
    go_back(agent, before)
    assert (agent.state.title, agent.state.words) == ("", ["b", "outer"])
    assert commit(agent) == [LogChange("words", 1, (b'"outer"',))]


def test_a_list_that_becomes_a_log_is_taken_over_once() -> None:
    agent = Keeper()
    restore_state(agent, b'{"title":"t","words":["a","b"]}', {})
    assert agent.state.words == ["a", "b"]
    restore_state(agent, b'{"title":"t","words":["a","b"]}')
    assert agent.state.words == ["a", "b"], "its handler failed"
    agent.state.words.append("c")
    assert dump_state(agent) == b'{"title":"t"}'
    assert log_changes(agent, is_changed=True) == [LogChange("words", 0, (b'"a"', b'"b"', b'"c"'))]
    settle_logs(agent)
    agent.state.words.append("d")
    assert log_changes(agent, is_changed=False) == [LogChange("words", 0, (b'"d"',))]


def test_a_log_that_becomes_a_list_is_refused_and_one_without_a_field_waits() -> None:
    class Older(Silent):
        class State(BaseModel):
            words: list[str] = []

    agent = Older()
    restore_state(agent, b"{}", {"gone": [b"1"]})
    with pytest.raises(StateError, match=r"declare it as words: Log\[...\] again"):
        restore_state(agent, b"{}", {"words": [b'"a"']})


def test_items_that_do_not_fit_any_more_are_told() -> None:
    with pytest.raises(StateError, match="the items of words"):
        restore_state(Keeper(), b"{}", {"words": [b"1"]})


async def test_it_is_saved_and_loaded_as_a_list() -> None:
    agent, other = Keeper(), Keeper()
    agent.state.words.extend("ab")
    saved = await agent.save_state()
    assert saved == {"title": "", "words": ["a", "b"], "pets": []}
    other.state.words.append("old")
    commit(other)
    thread = other.state.words
    await other.load_state(saved)
    assert other.state.words is thread
    assert commit(other) == [LogChange("words", 1, (b'"a"', b'"b"'))]
    await other.load_state({"title": "t"})
    assert other.state.words == []


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "trim", "replace"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["commit", "fail", "mark", "go back", "wake"]), st.just(0)),
    ),
    max_size=30,
)


@given(OPERATIONS)
def test_whatever_happens_the_server_has_what_the_agent_had_at_its_last_commit(
    operations: list[tuple[str, int]],
) -> None:
    """Beside two plain lists: what the handler sees, and what is committed."""
    agent, seen, committed = Keeper(), list[str](), list[str]()
    mark: tuple[Snapshot, list[str]] | None = None
    agent.stored["words"] = []
    for number, (what, size) in enumerate(operations):
        words = [f"{number}.{n}" for n in range(size)]
        if what == "append":
            agent.state.words.extend(words)
            seen += words
        elif what == "trim":
            agent.state.words.trim(keep=size)
            seen = seen[max(0, len(seen) - size) :]
        elif what == "replace":
            agent.state.words = Log(words)
            seen = words
        elif what == "commit":
            commit(agent)
            committed, mark = list(seen), None
        elif what == "mark":
            mark = snapshot(agent), list(seen)
        elif what == "go back":
            if mark is not None:
                go_back(agent, mark[0])
                seen = list(mark[1])
        else:
            restore_state(agent, b"{}", agent.stored if what == "wake" else None)
            seen, mark = list(committed), None
        assert agent.state.words == seen
        assert [json.loads(item) for item in agent.stored["words"]] == committed
