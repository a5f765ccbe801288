"""What the clients, managers and members of a team send to each other on the bus."""

from __future__ import annotations

from hashlib import blake2s
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from callboard.broker import AgentId
from callboard.broker.encoding.registry import message
from callboard.messages.unions import AnyMessage
from callboard.requests import Request
from callboard.runtime.run_paths import with_part, within

from .budget import Overspent, RunBudget
from .carrying import Carrying
from .parts import Part
from .state import is_nothing

STREAM_DIGEST: Final = 8  # bytes that tell a run's conversation from others in the name of its stream

IfBusy: TypeAlias = Literal["reject", "enqueue", "interrupt"]
"""What happens to a task while a run is under way: a TeamBusyError, it waits, or that run is cancelled."""

RunState: TypeAlias = Literal[
    "idle", "queued", "working", "input_required", "paused", "completed", "failed", "cancelled"
]


class _Order(BaseModel):
    model_config = ConfigDict(frozen=True)


@message(name="callboard.team.Accepted")
class Accepted(_Order):
    """What became of an order.

    Attributes:
        run_id: The run that it concerns; "": there is none.
        state: How that run stands.
        waiting: Who has not spoken yet, of those whose turn it is; with a paused run: who is to speak when it goes on.
        missing: Those of `waiting` whom no process runs, also of a team among them: ``"research.planner"``. Only in the
            answer to `Describe`.
        is_held: Whether nobody is speaking, because the run is paused.
        queued: How many tasks wait.
        done: Whether something changed.
        problem: Why nothing was done, as text for people; "": something was, or nothing was left to do.
        part: What the conversation was at a turn. Only in the answer to a `Fork` that asks for it.
    """

    run_id: str = ""
    state: RunState = "idle"
    waiting: list[str] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    is_held: bool = False
    queued: int = 0
    done: bool = True
    problem: str = ""
    part: Part | None = Field(default=None, exclude_if=is_nothing)


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
    """A task for a conversation.

    Attributes:
        run_id: Chosen by the client; the same again changes nothing.
        task: The task; empty: go on with what was said.
        if_busy: What to do when a run is under way.
        path: For which runs it counts, see `path_of`; "": for itself.
        budget: The most that it may use; None: as the team was declared.
        record: Whether it can be made a cassette of.
        step: Whether it waits before each turn until it is told to go on.
    """

    run_id: str
    task: list[AnyMessage] = Field(default_factory=list)
    if_busy: IfBusy = "reject"
    path: str = ""
    budget: RunBudget | None = None
    record: bool = False
    step: bool = False


@message(name="callboard.team.BeginRun")
class BeginRun(_Order):
    """A task whose sender waits for no answer, as that of a schedule.

    Attributes:
        run: The task.
    """

    run: StartRun


@message(name="callboard.team.Control")
class Control(_Order, Request[Accepted]):
    """An order to the run under way.

    Attributes:
        what: "pause": nobody begins to speak until "resume". "stop": it ends after this turn. "abort": it ends now.
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
class Save(_Order, Request[Saved]):
    """Give your state, with those of all members; to a manager."""


@message(name="callboard.team.Load")
class Load(_Order, Request[Accepted]):
    """Take over a state that was saved.

    Attributes:
        state: As it was saved.
        is_trial: Only try whether it can be loaded: nothing changes.
    """

    state: dict[str, Any]
    is_trial: bool = False


@message(name="callboard.team.TimeUp")
class TimeUp(_Order):
    """A manager's message to itself: the time of a run's budget is over."""

    run_id: str


@message(name="callboard.team.Fork")
class Fork(_Order, Request[Accepted]):
    """Make another conversation of what this one was.

    Attributes:
        fork_id: Tells it from others: the same again changes nothing.
        conversation: Id of the new one.
        turn: After which turn; None: see `run_id`.
        run_id: After the last turn of which run; "": after the last turn.
        is_cut_only: Answer with what it was; who asks makes the new conversation of it, with `Born`. A manager that waited
            for another one would keep its worker from trying alone what has ended a process, such as that other one.
    """

    fork_id: str
    conversation: str
    turn: int | None = None
    run_id: str = ""
    is_cut_only: bool = False


@message(name="callboard.team.Born")
class Born(_Order, Request[Accepted]):
    """To the manager of a conversation that nothing was said in: begin with this.

    Attributes:
        fork_id: As in Fork.
        part: What it has, with its members.
    """

    fork_id: str
    part: Part


BECOME: Final = "callboard.team.Become"


@message(name=BECOME)
class Become(_Order):
    """To a member of such a conversation: you have had this part in it."""

    part: Part


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
    """

    run: str
    turn: int
    messages: list[AnyMessage]
    inside: tuple[int, ...] = ()
    told: dict[int, int] = Field(default_factory=dict)
    record: bool = False

    def unheard_after(self, turn: int) -> list[AnyMessage]:
        """What is new for a member whose last turn was this one."""
        return self.messages[self.told.get(turn, 0) :]


@message(name="callboard.team.Answer")
class Answer(Carrying, _Order):
    """What a member has said.

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
"""What clients are answered, and read: they don't send it, so it has to be made known to them."""
