import copy
import os
import pickle

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ValidationError

from callboard.broker import AgentId, AgentType, TopicId
from callboard.broker.errors import InvalidIdError
from callboard.broker.ids import IdSource, derived_id

TYPES = st.from_regex(r"[\w\-.]+\Z", fullmatch=True)
TOPICS = st.from_regex(r"[\w\-.:=]+\Z", fullmatch=True)


@given(TYPES, st.text())
def test_an_agent_id_comes_back_from_its_text(name: str, key: str) -> None:
    agent = AgentId(name, key)
    assert AgentId.from_str(str(agent)) == agent
    assert (agent.type, agent.key) == (name, key)


@given(TOPICS, st.text())
def test_a_topic_id_comes_back_from_its_text(name: str, source: str) -> None:
    assert TopicId.from_str(str(TopicId(name, source))) == TopicId(name, source)


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "a b", "a\n", None, 3, b"a"])
def test_wrong_agent_types(name: str) -> None:
    for make in (lambda: AgentId(name, "k"), lambda: AgentType(name)):
        with pytest.raises(InvalidIdError, match="is not a valid agent type"):
            make()
        with pytest.raises(ValueError, match="letters, digits"):
            make()


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\n", "a#", None])
def test_wrong_topic_types(name: str) -> None:
    with pytest.raises(InvalidIdError, match="is not a valid topic type"):
        TopicId(name, "s")


def test_an_invalid_name_stays_invalid_when_asked_again() -> None:
    for _ in range(2):
        with pytest.raises(InvalidIdError):
            AgentId("no/way", "k")


def test_keys_and_sources_are_text() -> None:
    with pytest.raises(InvalidIdError, match="agent key"):
        AgentId("a", 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidIdError, match="topic source"):
        TopicId("a", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "nothing", "a b/k"])
def test_texts_that_are_no_ids(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid"):
        AgentId.from_str(text)
    with pytest.raises(ValueError, match="is not a valid"):
        TopicId.from_str(text)


def test_an_agent_type_serves_as_the_type_of_an_id() -> None:
    assert AgentId(AgentType("writer"), "k") == AgentId("writer", "k")
    assert str(AgentType("writer")) == "writer"


def test_kinds_of_ids_are_never_equal() -> None:
    assert AgentId("a", "b") != TopicId("a", "b")
    assert AgentId("a", "b") != "a/b"
    assert AgentType("a") != "a"
    assert len({AgentId("a", "b"), TopicId("a", "b"), AgentId("a", "b"), AgentType("a")}) == 3


def test_ids_do_not_change() -> None:
    for made, name in ((AgentId("a", "b"), "key"), (TopicId("a", "b"), "source"), (AgentType("a"), "type")):
        with pytest.raises(AttributeError, match="make a new one"):
            setattr(made, name, "c")
        with pytest.raises(AttributeError):
            delattr(made, name)
        assert copy.deepcopy(made) is made
        assert copy.copy(made) is made
        assert pickle.loads(pickle.dumps(made)) == made


def test_ids_are_fields_of_messages() -> None:
    class Note(BaseModel):
        who: AgentId
        where: TopicId

    note = Note(who=AgentId("a", "b/c"), where=TopicId("t", "s"))
    assert note.model_dump() == {"who": "a/b/c", "where": "t/s"}
    assert Note.model_validate_json(note.model_dump_json()) == note
    with pytest.raises(ValidationError):
        Note.model_validate({"who": "nobody", "where": "t/s"})


def test_new_ids_are_short_and_unique() -> None:
    sources = [IdSource(), IdSource()]
    made = [source.next() for source in sources for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert all(9 <= len(one) <= 16 for one in made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_makes_other_ids() -> None:
    source = IdSource()
    source.next()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.next().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 100).decode()
    os.close(reader)
    os.close(writer)
    assert theirs != source.next()
    assert theirs[:8] != source.next()[:8]


def test_derived_ids_depend_on_all_they_are_made_of_and_on_nothing_else() -> None:
    one = derived_id("m1", "a/k", 0)
    assert one == derived_id("m1", "a/k", 0)
    # Records of messages that are being handled while a process is replaced go by it: it stays what it is.
    assert derived_id("m1", "a/k", 5) == "3T.dFQlgMhe_8Zqb"
    others = [
        derived_id("m2", "a/k", 0),
        derived_id("m1", "a/j", 0),
        derived_id("m1", "a/k", 1),
        derived_id("m1", "a/k", 0, b"salt"),
    ]
    assert len({one, *others}) == 5
    assert len(one) == 16
    assert one == "xUi32opX9bP4l7hA"
