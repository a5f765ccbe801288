"""Messages between clients, managers and members of a team on the bus, and the state that a manager stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2s, sha256
from operator import not_
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from callboard.agents.base import Said
from callboard.broker import AgentId
from callboard.broker.codec import message, plain
from callboard.broker.errors import PayloadTooLargeError
from callboard.broker.redis.client.questions import InputStatus
from callboard.broker.shape import Shape
from callboard.core.agent import Messaging
from callboard.core.protocol import Request, TellOptions
from callboard.core.state import Log
from callboard.errors import SettingValueError
from callboard.messages.chat import BaseMessage
from callboard.messages.events import AnyMessage
from callboard.runtime.effects import with_part, within

from .budget import Overspent, RunBudget
from .loop import ConversationState, Speaking, is_nothing
from .states import TurnMark

# Addresses and ids

KNOWN: Final = 10_000  # addresses that are kept: each turn asks for one
ASKS: Final = " (asks)"  # behind a conversation's id: the key of the agent that asks people for its manager


def asking_address(manager: AgentId) -> AgentId:
    """The address of the agent that asks people for this manager."""
    return AgentId(manager.type, manager.key + ASKS)


def keys_in(conversation: str) -> tuple[str, str]:
    """The keys that agents of a conversation may have: those of its members, and of the agent that asks people."""
    return conversation, conversation + ASKS


def conversation_of(address: AgentId) -> str:
    """The conversation in which an agent of a team asks."""
    return address.key.removesuffix(ASKS)


def member_type(team: str, member: str) -> str:
    """The agent type of a member.

    Args:
        team: The agent type of its manager.
        member: Its name.
    """
    return f"{team}.{member}"


@lru_cache(maxsize=KNOWN)
def member_address(manager: AgentId, member: str) -> AgentId:
    """The address of a member in the conversation of this manager."""
    return AgentId(member_type(manager.type, member), manager.key)


def member_name(manager: AgentId, address: AgentId | None) -> str:
    """The name of the member that has this address; "" when it is none of the team."""
    begin = member_type(manager.type, "")
    return address.type[len(begin) :] if address is not None and address.type.startswith(begin) else ""


def asking_id(manager: AgentId, run_id: str, turn: int) -> str:
    """Id of the message that asks for a turn: by it the turn is cancelled, wherever it is, and known when it is buried."""
    return _id_of(manager, run_id, turn)


def consulting_id(manager: AgentId, run_id: str, number: int) -> str:
    """Id of the message by which a manager has a person asked: the question of this number in its run."""
    return _id_of(manager, run_id, "asks", number)


def _id_of(*parts: object) -> str:
    # A hash: ids of conversations and runs may be long.
    return sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


MOST_OWN_ID: Final = 100  # characters; MOST_RUN_ID without a digest and what ends the name of a recording


def check_conversation(conversation: str) -> None:
    """Refuse the id of a conversation whose agents would share their keys with those of another one.

    An empty one is refused as well: it comes of a variable that was not set, and all without one would share a conversation.

    Raises:
        SettingValueError: There can't be such a conversation (a ValueError).
    """
    if not conversation:
        raise SettingValueError(
            "conversation", repr(conversation), "a text that is not empty, such as a customer's id"
        )
    # The manager of the conversation 'sea' and the agent that asks people for it differ by this ending only. A conversation
    # named 'sea (asks)' would be that agent: two conversations in one state, each undoing what the other one commits.
    # guard: no conversation has the key of the agent that asks people for another one
    if conversation.endswith(ASKS):
        rule = f"a text that does not end with {ASKS!r}: so ends the key of who asks people in a conversation"
        raise SettingValueError("conversation", repr(conversation), rule)


def check_run_id(run_id: str) -> None:
    """Refuse an id that is empty, or leaves no room for what is added to it in the names of the run's streams.

    Raises:
        SettingValueError: It is empty or too long (a ValueError).
    """
    if not 0 < len(run_id) <= MOST_OWN_ID:
        raise SettingValueError("run_id", repr(run_id[:MOST_OWN_ID]), f"1 to {MOST_OWN_ID} characters")


# What is carried: parts of a conversation, and what was said


class ConversationPart(BaseModel):
    """The part of a conversation that one agent has, and for a team those of its members.

    Attributes:
        data: Fields of its state.
        logs: Items of its logs, by field.
        members: Parts of the members that had taken part by then.
    """

    model_config = ConfigDict(frozen=True)

    data: dict[str, Any] = Field(default_factory=dict)
    logs: dict[str, list[Any]] = Field(default_factory=dict)
    members: dict[str, ConversationPart] = Field(default_factory=dict)


AROUND: Final = 2  # containers that a message is in: the map of what carries it, and the list
FLAT: Final = frozenset({str, int, bool, tuple, type(None)})
"""Types of fields that need no second look: the tuples of what carries messages hold numbers."""


@cache
def _depth_of(message_type: type[BaseMessage]) -> int | None:
    """How many containers lie within one another in what `dump` returns, at most; None: that is not known before."""
    shape = Shape.of(message_type.__pydantic_core_schema__)
    return None if shape.is_open or message_type.dump is not BaseMessage.dump else shape.levels


def plain_of(message: Said, max_depth: int) -> Any:
    """The data of `dump` as they can be packed: made only of what msgpack has, with text as map keys.

    Raises:
        UnwritableError: It is nested too deep, or has something else in it, which a `dump` of the user's own has put there.
    """
    data = message.dump()
    depth = _depth_of(type(message))
    # pydantic's mode "json" makes nothing else of fields that it knows: there is nothing to look for.
    return data if depth is not None and depth <= max_depth else plain(data, max_depth)


@cache
def _exclusions(carrying: type[BaseModel]) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    """The fields that are not always written, each with what says when it is not."""
    fields: Mapping[str, FieldInfo] = carrying.model_fields
    return tuple((name, one.exclude_if) for name, one in fields.items() if one.exclude_if is not None)


class Carrying:
    """A message with a field `messages` of what was said, beside its base class. `MessageEntry` says how it is written."""

    def __callboard_plain__(self, max_depth: int) -> dict[str, Any]:
        """The fields as they can be packed."""
        data, carrying = self.__dict__.copy(), cast("type[BaseModel]", type(self))
        for name, is_left_out in _exclusions(carrying):
            if is_left_out(data[name]):
                del data[name]
        for name, value in data.items():
            if name == "messages":
                data[name] = [plain_of(message, max_depth - AROUND) for message in value]
            elif type(value) not in FLAT:
                data[name] = plain(value, max_depth - 1)
        return data


MOST_TEXT: Final = (
    100_000  # characters that are shown together; with their escapes they stay below `max_payload`
)
FRAME: Final = 400  # characters of a message beside its text: id, time and the like


def parts_of(messages: Sequence[Said]) -> Iterator[list[Said]]:
    """Messages in groups that are small enough to be shown; one that is large by itself is alone in its group."""
    part: list[Said] = []
    size = 0
    for said in messages:
        length = FRAME + len(said.to_text())
        if part and size + length > MOST_TEXT:
            yield part
            part, size = [], 0
        part.append(said)
        size += length
    yield part


async def tell_all_of(
    agent: Messaging,
    message: Any,
    recipient: AgentId | str,
    *,
    message_id: str | None = None,
    cancellable: bool = False,
) -> None:
    """Tell something that grows with a conversation; where it is too large for an inbox, it is kept beside it."""
    how: TellOptions = {
        "if_buried": True,
        "cancellable": cancellable,
        "unique": message_id is not None,
    }
    try:
        await agent.tell(message, recipient, message_id=message_id, **how)
    except PayloadTooLargeError:
        how["claim_check"] = True
        await agent.tell(message, recipient, message_id=message_id, **how)


# A run: how it stands, and its names

STREAM_DIGEST: Final = 8  # bytes that tell a run's conversation from others in the name of its stream

IfBusy: TypeAlias = Literal["reject", "enqueue", "interrupt"]
"""The fate of a task that comes while a run is under way: a TeamBusyError, to wait, or to take its place."""

RunState: TypeAlias = Literal[
    "idle", "queued", "working", "input_required", "paused", "completed", "failed", "cancelled"
]


class _Order(BaseModel):
    model_config = ConfigDict(frozen=True)


@message(name="callboard.team.Accepted")
class Accepted(_Order):
    """Result of an order.

    Attributes:
        run_id: The run that it concerns; "": there is none.
        state: How that run stands.
        waiting: Who has not spoken yet, of those whose turn it is; with a paused run: who is to speak when it goes on.
        missing: Those of `waiting` whom no process runs, also of a team among them: ``"research.planner"``. Only in the
            answer to `Describe`.
        is_held: Whether no member is speaking, because the run is paused.
        queued: How many tasks wait.
        done: Whether something changed.
        problem: Why nothing was done, as text for people; "": something was, or nothing was left to do.
        part: What the conversation was at a turn. Only in the answer to a `Fork`.
    """

    run_id: str = ""
    state: RunState = "idle"
    waiting: list[str] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    is_held: bool = False
    queued: int = 0
    done: bool = True
    problem: str = ""
    part: ConversationPart | None = Field(default=None, exclude_if=is_nothing)


def stream_of(team: AgentId, run_id: str) -> str:
    """Name of the stream that shows a run: with the same id in two conversations it is another.

    Args:
        team: Address of the team's manager in the conversation.
        run_id: Id of the run.
    """
    digest = blake2s(str(team).encode(), digest_size=STREAM_DIGEST).hexdigest()
    return f"{run_id}@{digest}"


def path_of(team: AgentId, run_id: str, outer: str | None = None) -> str:
    """For what a run counts that a model or an agent uses: for the run, and for those around it.

    Args:
        team: Address of the team's manager in the conversation.
        run_id: Id of the run.
        outer: The path of the run in which it is started; None: none.

    Raises:
        SettingValueError: There are too many runs inside each other (a ValueError).
    """
    return within(outer, with_part(run_id, stream_of(team, run_id).removeprefix(run_id)))


# Client to manager


@message(name="callboard.team.StartRun")
class StartRun(_Order, Request[Accepted]):
    """A task for a conversation: asked for by a client, or told, as that of a schedule, which waits for no answer.

    Attributes:
        run_id: Chosen by the client; the same again changes nothing.
        task: The task; empty: go on with what was said.
        if_busy: What to do when a run is under way.
        path: For which runs it counts, see `path_of`; "": for itself.
        budget: The most that it may use; None: as the team was declared.
        record: Whether it can be made a cassette of.
        step: Whether it waits before each turn until it is told to go on.
        hearer: Who is told that it has ended, or asks, see notices.py; "": nobody.
    """

    run_id: str
    task: list[AnyMessage] = Field(default_factory=list)
    if_busy: IfBusy = "reject"
    path: str = ""
    budget: RunBudget | None = None
    record: bool = False
    step: bool = False
    hearer: str = ""


@message(name="callboard.team.Control")
class ControlRun(_Order, Request[Accepted]):
    """An order to the run under way.

    Attributes:
        what: "pause": no member begins to speak until "resume". "stop": it ends after this turn. "abort": it ends now.
            "step": the next turn begins, of a run that waits before each.
        now: With "pause": who is speaking is interrupted as well, and begins again from its last recorded step. With "step":
            it does not wait any more.
        run_id: The run that is meant, which may also wait for its turn when it is to be aborted; "": the one under way.
        turn: With "step": the turn that is meant, so that an order that comes late begins no other; 0: whichever waits.
    """

    what: Literal["pause", "resume", "stop", "abort", "step"]
    now: bool = False
    run_id: str = ""
    turn: int = 0


@message(name="callboard.team.Describe")
class Describe(_Order, Request[Accepted]):
    """How does the conversation stand?

    Attributes:
        run_id: The run that is meant; "": the one under way.
    """

    run_id: str = ""


@message(name="callboard.team.ResetConversation")
class ResetConversation(_Order, Request[Accepted]):
    """Forget the conversation: to a manager, and from there to its members."""


@message(name="callboard.team.Saved")
class Saved(_Order):
    """A state as plain data; `problem` is not "" when there is none to give."""

    state: dict[str, Any] = Field(default_factory=dict)
    problem: str = ""


@message(name="callboard.team.Save")
class SaveConversation(_Order, Request[Saved]):
    """Give your state, with those of all members; to a manager."""


@message(name="callboard.team.Load")
class LoadConversation(_Order, Request[Accepted]):
    """Take over a state that was saved.

    Attributes:
        state: As it was saved.
        is_trial: Only try whether it can be loaded: nothing changes.
    """

    state: dict[str, Any]
    is_trial: bool = False


@message(name="callboard.team.Fork")
class Fork(_Order, Request[Accepted]):
    """Give what the conversation was, so that another one can begin with it.

    The sender makes the new one, with `Born`. A manager that waited for another one would keep its worker from trying alone
    what has ended a process, such as that other one.

    Attributes:
        fork_id: Tells it from others: the same again changes nothing.
        conversation: Id of the new one.
        turn: After which turn; None: see `run_id`.
        run_id: After the last turn of which run; "": after the last turn.
    """

    fork_id: str
    conversation: str
    turn: int | None = None
    run_id: str = ""


@message(name="callboard.team.Born")
class Born(_Order, Request[Accepted]):
    """To the manager of a conversation that nothing was said in: begin with this.

    Attributes:
        fork_id: As in Fork.
        part: What it has, with its members.
    """

    fork_id: str
    part: ConversationPart


BECOME: Final = "callboard.team.Become"


@message(name=BECOME)
class Become(_Order):
    """To a member of such a conversation: you have had this part in it."""

    part: ConversationPart


# Manager to member, and back


@message(name="callboard.team.Speak")
class Speak(Carrying, _Order):
    """It is your turn.

    Attributes:
        run: The run's stream, where everything is shown.
        turn: Number of the turn; the answer names it.
        messages: What was said since your last turn.
        inside: Turns of larger teams that this one is a part of, the outermost first.
        told: By the number of a turn that was called off: how many of `messages`, from the first, came with it already. Who
            took that turn last has heard them.
        record: Whether answers of models and tools are noted.
        hearer: Who is told what it asks people; "": nobody.
        heard_by: Agent types that are told as well, because they hear of every run of the team.
    """

    run: str
    turn: int
    messages: list[AnyMessage]
    inside: tuple[int, ...] = ()
    told: dict[int, int] = Field(default_factory=dict)
    record: bool = False
    hearer: str = ""
    heard_by: tuple[str, ...] = Field(default=(), exclude_if=not_)

    def unheard_after(self, turn: int) -> list[AnyMessage]:
        """The messages that are new for a member whose last turn was this one."""
        return self.messages[self.told.get(turn, 0) :]


@message(name="callboard.team.Answer")
class Answer(Carrying, _Order):
    """Messages of a member in its turn.

    Attributes:
        turn: The turn it was asked for.
        attempt: Tells this attempt at the turn from others, in what was shown on the way.
        messages: What happened on the way, and at last what it says.
        drafts: Number of the first draft that this attempt has shown; 0: it has shown none. Those of attempts before it,
            whose process died, stay until the stream is cut: readers are told that they are void.
        is_team: Whether it is a team: then others hear every chat message.
    """

    turn: int
    attempt: str
    messages: list[AnyMessage]
    drafts: int = 0
    is_team: bool = False


@message(name="callboard.team.TurnFailed")
class TurnFailed(_Order):
    """A member can't answer.

    Attributes:
        turn: The turn it was asked for.
        error_type: Class of what was raised.
        text: Its text.
        where: Where it was raised: the name of a member, of a member's member, or of a manager.
        traceback: As text.
        overspent: The limit that the run has reached; None: something else has failed.
    """

    turn: int
    error_type: str
    text: str
    where: str
    traceback: str = ""
    overspent: Overspent | None = None


@message(name="callboard.team.Forget")
class Forget(_Order):
    """Be as in the beginning.

    Attributes:
        turn: The last turn that had ended by then; 0: what was before can't be forked any more either.
    """

    turn: int = 0


@message(name="callboard.team.Told")
class Told(_Order):
    """The team was paused, or goes on; or its run was cancelled, which concerns members that are teams."""

    what: Literal["pause", "resume", "abort"]
    now: bool = False


# Manager to itself


@message(name="callboard.team.Act")
class Act(_Order):
    """Cancel messages, pause agents and let them go on, now that what they are told so for is committed.

    Attributes:
        orders: What, and of which message or agent, in the order in which they are given.
    """

    orders: list[tuple[Literal["cancel", "pause", "resume"], str]]


# Manager to the agent that asks people, and back


@message(name="callboard.team.Consult")
class Consult(BaseModel):
    """A manager's strategy asks a person: to the agent of its type that asks for it.

    Attributes:
        id: Tells it from others; what came of it names it.
        run: The run's stream, where the question is shown.
        inside: Turns of larger teams that the run is a part of, the outermost first.
        source: Who asks, for readers.
        name: Name of the question, by which the strategy finds the answer.
        text, answer_schema, choices, to, timeout, details: What is asked, see `callboard.Question`.
        default: JSON of what is taken when it expires; None: nothing is.
        hearer: Who is told of it; "": nobody.
        heard_by: Agent types that are told as well.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    run: str
    inside: tuple[int, ...]
    source: str
    name: str
    text: str
    answer_schema: dict[str, Any] = Field(default_factory=dict)
    choices: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    timeout: float | None = None
    default: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)
    hearer: str = ""
    heard_by: tuple[str, ...] = Field(default=(), exclude_if=not_)


@message(name="callboard.team.Consulted")
class Consulted(BaseModel):
    """Answer to a Consult, or why there is none.

    Attributes:
        id: Of the Consult.
        name: Name of the question.
        status: "answered", "expired" or "withdrawn".
        answer: JSON of the answer, or of the default; "" without one.
        input_id: Id of the question, where it has no answer.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    status: InputStatus
    answer: str = ""
    input_id: str = ""


# In the run's stream


class RunBegan(_Order):
    """Whose run a stream shows.

    Attributes:
        team: Its agent type.
        conversation: Id of the conversation.
        run_id: Id of the run.
    """

    team: str
    conversation: str
    run_id: str


@message(name="callboard.team.Shown")
class Shown(Carrying, _Order):
    """Something for those who read a run.

    Attributes:
        turn: The turn, as a path through nested teams, the outermost first; a last 0: said by a manager.
        source: Who speaks.
        attempt: Which attempt at the turn; "": there is only one.
        messages: What was said or happened.
        is_final: Whether it is committed; else it is shown while the turn is under way, and void when its attempt ends.
        is_task: Whether it is the task of the run.
        goes_on: Whether the next entry of the same turn is a part of it: it was too large for one.
        is_aside: Whether it is about the turn and no part of it, such as a question and its answer: it is never void, and
            shown once, however many attempts write it.
        began: Of the first entry of a run: whose it is.
    """

    turn: tuple[int, ...]
    source: str
    attempt: str
    messages: list[AnyMessage]
    is_final: bool = False
    is_task: bool = False
    goes_on: bool = False
    is_aside: bool = False
    began: RunBegan | None = None


@message(name="callboard.team.RunHeld")
class RunHeld(_Order):
    """A run waits to be told that its next turn may begin.

    Attributes:
        turn: Number of that turn; of the last one, where several begin at once.
    """

    turn: int


@message(name="callboard.team.RunEnded")
class RunEnded(_Order):
    """The last entry of a run.

    Attributes:
        state: How it ended.
        stop_reason: Why, when it was completed.
        error: Why, when it failed.
    """

    state: Literal["completed", "failed", "cancelled"]
    stop_reason: str | None = None
    error: TurnFailed | None = None


ANSWERS: Final = (Accepted, Saved, Shown, RunHeld, RunEnded)
"""Messages that clients are answered, and read: they don't send them, so these have to be made known to them."""


# What a manager stores


class ParentTeam(BaseModel):
    """Who asked a team that is a member of a larger one.

    Attributes:
        manager: Address of its manager.
        turn: The turn that this team was asked for.
        inside: The turns of larger teams, this one included, the outermost first.
    """

    model_config = ConfigDict(frozen=True)

    manager: str
    turn: int
    inside: tuple[int, ...]


class CurrentRun(BaseModel):
    """The run under way.

    Attributes:
        run_id: Its id.
        stream: Id of the run whose stream shows it: its own, or that of the outermost team.
        first: Where in the thread what is said in it begins, its task left out.
        path: For which runs counts what is used in it; see `path_of`.
        parent: Who asked for it; None: a client did.
        is_paused: Whether no member may begin to speak.
        is_interrupted: Whether those who were speaking were interrupted, too.
        held: Who is to speak when it goes on.
        is_stopping: Whether it ends after this turn.
        budget: The most that it may use.
        asked: How often members were asked to speak.
        record: Whether answers of models and tools are noted.
        is_stepping: Whether it waits before each turn until it is told to go on.
        is_wanted: Whether it was told so while it was paused.
        consulted: How often its strategy has asked people.
        asking: Id of what it asks now; "": nothing.
        answers: What it was answered while it chooses, by the names of its questions.
        timer: Id of the message that comes when its time is over; "": there is none.
        hearer: Who is told that it has ended, or asks; "": nobody.
        heard_by: Agent types that are told as well, because they hear of every run of the team.
    """

    run_id: str
    stream: str
    path: str = ""
    first: int = 0
    parent: ParentTeam | None = Field(default=None, exclude_if=is_nothing)
    is_paused: bool = False
    is_interrupted: bool = False
    held: list[str] = Field(default_factory=list)
    is_stopping: bool = False
    budget: RunBudget | None = Field(default=None, exclude_if=is_nothing)
    asked: int = 0
    record: bool = False
    is_stepping: bool = False
    is_wanted: bool = False
    consulted: int = 0
    asking: str = ""
    answers: dict[str, Consulted] = Field(default_factory=dict)
    timer: str = ""
    hearer: str = ""
    heard_by: tuple[str, ...] = Field(default=(), exclude_if=not_)

    @property
    def inside(self) -> tuple[int, ...]:
        """The turns of larger teams that it is a part of."""
        return () if self.parent is None else self.parent.inside

    @property
    def state(self) -> RunState:
        """How it stands."""
        return "paused" if self.is_paused else "working"


class ManagerState(ConversationState):
    """State of the manager: the turn loop's part, and the runs.

    Attributes:
        run: The run under way.
        queued: Tasks that wait for its end.
        called_off: Turns that were under way when their run was cancelled or failed, by the member's name. Whether the
            member took them only it knows.
        asked: Number of the turn of a larger team that this one took last.
        unborn: Members of a fork that could not take over their parts, and the error of each.
        is_fork: Whether it has taken over the part that a member had in another conversation.
        marks: Where the logs were after each of the last turns.
        lost: What was up to this turn of a larger team is in no mark any more; 0: before the first mark there was nothing.
        recent: Ids of the last runs: a task that is sent again is not carried out again.
    """

    run: CurrentRun | None = Field(default=None, exclude_if=is_nothing)
    queued: list[StartRun] = Field(default_factory=list)
    called_off: dict[str, list[Speaking]] = Field(default_factory=dict)
    asked: int = 0
    recent: list[str] = Field(default_factory=list)
    unborn: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    is_fork: bool = Field(default=False, exclude_if=not_)
    marks: Log[TurnMark] = Log()
    lost: int = Field(default=0, exclude_if=not_)
