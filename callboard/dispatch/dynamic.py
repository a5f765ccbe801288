"""The dispatcher whose handoffs come and go: limits, authorization, watchers, and its state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ValidationError

from callboard.agents.handoff import Handoff
from callboard.memory.llm_messages import LLMMessage

from .dispatcher import (
    AbstractDynamicDispatcher,
    DispatchError,
    EnabledFunc,
    HandoffDeclarationError,
    KnownHandoff,
    Origin,
    TargetRefusedError,
    UnknownHandoffError,
    check_handoff,
    check_texts,
    name_taken,
)

Kind: TypeAlias = Literal["created", "added", "deleted", "enabled", "disabled", "used", "expired", "hidden"]


@dataclass(frozen=True, slots=True)
class HandoffChange:
    """Something that happened to a handoff of a dispatcher.

    Attributes:
        kind: What.
        name: The name of the handoff.
        target: Its target.
        caller: The agent whose model asked for it; None: the program, or its lifetime.
    """

    kind: Kind
    name: str
    target: str
    caller: str | None = None


ANYBODY: Final = "*"
Targets: TypeAlias = Sequence[str] | Literal["*"]
Authorized: TypeAlias = Targets | Mapping[str, Targets] | None
"""The names of the targets; "*": anybody; a mapping: the targets of each agent by its name, and none for others; None:
none."""


class Authorization:
    """Says to whom agents may hand over. What is not allowed is forbidden.

    Args:
        given: Who may.
        outside: Targets that are allowed to be outside of the team.

    Raises:
        HandoffDeclarationError: It is something else (a ValueError).
    """

    def __init__(self, given: Authorized, outside: Sequence[str] = ()) -> None:
        self._targets: frozenset[str] | None = frozenset()  # None: anybody
        self._by_caller: dict[str, frozenset[str] | None] | None = None
        self._outside = frozenset(outside)
        self._members: frozenset[str] | None = None  # None: not known
        if isinstance(given, Mapping):
            self._by_caller = {caller: _targets(targets) for caller, targets in given.items()}
        else:
            self._targets = _targets(given or ())

    def join(self, members: Sequence[str]) -> None:
        """Learn the names of a team."""
        self._members = (self._members or frozenset()) | frozenset(members)

    def check(self, target: str, caller: str | None) -> None:
        """Refuse a target.

        Args:
            target: Who would go on.
            caller: Who hands over; None: it is enough when one may.

        Raises:
            TargetRefusedError: It is not allowed (a ValueError).
        """
        if target == caller:
            raise TargetRefusedError(target, "that is who hands over")
        if not any(allowed is None or target in allowed for allowed in self._of(caller)):
            raise TargetRefusedError(target, self._advice(caller))
        self.check_member(target)

    def check_member(self, target: str) -> None:
        """Refuse a target that is not in the team.

        Raises:
            TargetRefusedError: It is not there (a ValueError).
        """
        if self._members is not None and target not in self._members | self._outside:
            raise TargetRefusedError(target, f"nobody in the team has this name; {_listed(self._members)}")

    def allows(self, target: str, caller: str) -> bool:
        """Whether `check` refuses nothing."""
        try:
            self.check(target, caller)
        except TargetRefusedError:
            return False
        return True

    def _of(self, caller: str | None) -> list[frozenset[str] | None]:
        if self._by_caller is None:
            return [self._targets]
        if caller is None:
            return list(self._by_caller.values())
        return [self._by_caller.get(caller, frozenset())]

    def _advice(self, caller: str | None) -> str:
        allowed = {name for targets in self._of(caller) for name in targets or ()}
        who = "it is not authorized" if caller is None else f"it is not authorized for {caller!r}"
        return f"{who}; {_listed(allowed - {caller})}"


def _not_its_state(reason: str) -> HandoffDeclarationError:
    return HandoffDeclarationError(f"the state can't be loaded: {reason}")


def _targets(given: Targets) -> frozenset[str] | None:
    if given == ANYBODY:
        return None
    found: object = given  # programs without a type checker pass other things
    if isinstance(found, str) or not all(isinstance(name, str) for name in given):
        raise HandoffDeclarationError(
            f'authorized agents are a list of names, or "*" for anybody, not {given!r}'
        )
    return frozenset(given)


def _listed(names: frozenset[str] | set[str | None] | set[str]) -> str:
    return f"there are: {', '.join(sorted(map(str, names)))}" if names else "nobody is"


class SavedHandoff(BaseModel):
    """A handoff that came at run time; see `Entry` for the attributes."""

    name: str
    target: str
    description: str
    message: str
    origin: Literal["added", "created"]
    enabled: bool = True
    born: int = 0
    uses: int = 0

    @classmethod
    def of(cls, entry: KnownHandoff) -> Self:
        """The entry as plain data."""
        return cls.model_validate(
            {
                **entry.handoff.model_dump(),
                "origin": entry.origin,
                "enabled": entry.enabled,
                "born": entry.born,
                "uses": entry.uses,
            }
        )

    def to_entry(self) -> KnownHandoff:
        """The entry.

        Raises:
            DispatchError: It can't be shown to models.
        """
        handoff = Handoff(
            name=self.name, target=self.target, description=self.description, message=self.message
        )
        return KnownHandoff(check_handoff(handoff), self.origin, self.enabled, born=self.born, uses=self.uses)


class DynamicDispatcherState(BaseModel):
    """The state of a DynamicDispatcher.

    Attributes:
        turn: How many turns its agents have begun.
        handoffs: Those that came at run time, oldest first.
        enabled: By name, whether models are shown it.
        deleted: Names of handoffs that the constructor was given, and which are gone.
    """

    type: Literal["DynamicDispatcherState"] = "DynamicDispatcherState"
    version: str = "1.0.0"
    turn: int = 0
    handoffs: list[SavedHandoff] = []
    enabled: dict[str, bool] = {}
    deleted: list[str] = []


def read_state(state: Mapping[str, Any], limit: int) -> tuple[DynamicDispatcherState, list[KnownHandoff]]:
    """The state, and the handoffs in it.

    Args:
        state: Plain data.
        limit: How many handoffs it may have.

    Raises:
        HandoffDeclarationError: It is no state of a DynamicDispatcher (a ValueError).
    """
    try:
        saved = DynamicDispatcherState.model_validate(state)
        entries = [one.to_entry() for one in saved.handoffs]
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _not_its_state(f"{place}: {first['msg']}") from error
    except DispatchError as error:
        raise _not_its_state(str(error)) from error
    if len(entries) > limit:
        raise _not_its_state(f"it has {len(entries)} handoffs: at most {limit} are allowed")
    if len({entry.handoff.name for entry in entries}) < len(entries):
        raise _not_its_state("two handoffs have one name")
    return saved, entries


MAX_HANDOFFS: Final = 64
LIFETIME: Final = 20  # turns
MAX_USES: Final = 1


class DynamicDispatcher(AbstractDynamicDispatcher):
    """Handoffs that are created, added, deleted, enabled and disabled at run time, to authorized targets.

    What is not authorized is forbidden, on every way in; and what an agent is not authorized for, it is not shown, so that
    agents may share a dispatcher. Each conversation on the bus has a copy of its own, which is saved with each turn of its
    agent: agents share one within a process only.

    What the proposal does otherwise: names and descriptions are checked in one of its methods only, `delete_all_handoffs`
    keeps what it knew of them, there is no limit, and nothing can be saved.

    Args:
        authorized_agents: To whom may be handed over, see `Authorized`: names, "*" for anybody, or names for each agent.
            None: none, so that `handoffs` are refused, too.
        handoffs: Handoffs to begin with, all enabled.
        max_handoffs: The most handoffs there may be, disabled ones among them.
        lifetime: In how many turns of its agents, after the one in which it was created, a handoff may still be used; None:
            in any.
        max_uses: How often a created handoff may be used; None: as often as you like. Its message was written for one
            occasion.
        outside: Targets that need not be in the team, such as the person that a HandoffTermination waits for.
        on_change: Told of every change, for audits. A handler that is run again tells it again.

    Raises:
        HandoffDeclarationError: A limit or the authorized agents can't be these (a ValueError).
        DispatchError: As `add_handoff`.
    """

    def __init__(
        self,
        authorized_agents: Authorized = None,
        handoffs: Iterable[Handoff] | None = None,
        *,
        max_handoffs: int = MAX_HANDOFFS,
        lifetime: int | None = LIFETIME,
        max_uses: int | None = MAX_USES,
        outside: Sequence[str] = (),
        on_change: Callable[[HandoffChange], None] | None = None,
    ) -> None:
        _check_limits(max_handoffs=max_handoffs, lifetime=lifetime, max_uses=max_uses)
        self._authorization = Authorization(authorized_agents, outside)
        self._max_handoffs = max_handoffs
        self._lifetime = lifetime
        self._max_uses = max_uses
        self._on_change = on_change
        self._entries: dict[str, KnownHandoff] = {}
        self._deleted: set[str] = set()  # of those that the constructor was given
        self._turn = 0
        for handoff in handoffs or ():
            self._add(KnownHandoff(check_handoff(handoff), "given"))

    # Coming and going

    def create_handoff(
        self, name: str, target: str, description: str, message: str, *, caller: str | None = None
    ) -> Handoff:
        """Create and add a handoff, enabled; see `AbstractDynamicDispatcher.create_handoff`.

        Raises:
            HandoffDeclarationError: The name is none for a tool, or the description has more than 1,024 characters (a
                ValueError).
            TargetRefusedError: The target is not authorized, not in the team, or the caller itself (a ValueError).
            HandoffDeclarationError: There is one of this name, or there are too many (a ValueError).
        """
        if name:
            check_texts(name, description)
        handoff = Handoff(target=target, description=description, name=name, message=message)
        self._add(KnownHandoff(check_handoff(handoff), "created", born=self._turn), caller)
        return handoff

    def add_handoff(self, handoff: Handoff, enabled: bool | EnabledFunc = True) -> None:
        """Add a handoff.

        Args:
            handoff: The handoff.
            enabled: Whether models are shown it; or a function that says so before each request to a model.

        Raises:
            HandoffDeclarationError: It is none (a TypeError).
            DispatchError: As `create_handoff`.
        """
        given = check_handoff(handoff)
        if callable(enabled):
            self._add(KnownHandoff(given, "added", when=enabled))
        else:
            self._add(KnownHandoff(given, "added", enabled))

    def _add(self, entry: KnownHandoff, caller: str | None = None) -> None:
        handoff = entry.handoff
        self._authorization.check(handoff.target, caller)
        if handoff.name in self._entries:
            raise name_taken(handoff.name)
        if len(self._entries) >= self._max_handoffs:
            raise HandoffDeclarationError(
                f"there can be at most {self._max_handoffs} handoffs: use one of those that there are, or delete some first"
            )
        self._entries[handoff.name] = entry
        kind: dict[Origin, Kind] = {"created": "created", "added": "added", "given": "added"}
        self._tell(kind[entry.origin], handoff, caller)

    def delete_handoff(self, handoff_name: str) -> None:
        """Delete a handoff; see `AbstractDynamicDispatcher.delete_handoff`."""
        self._delete(self._entry(handoff_name), "deleted")

    def delete_all_handoffs(self) -> None:
        """Delete all handoffs, and what was known of them."""
        for entry in list(self._entries.values()):
            self._delete(entry, "deleted")

    def _delete(self, entry: KnownHandoff, kind: Kind) -> None:
        name = entry.handoff.name
        del self._entries[name]
        if entry.origin == "given":
            self._deleted.add(name)
        self._tell(kind, entry.handoff)

    def enable_handoff(self, handoff_name: str) -> None:
        """Show a handoff to models again; see `AbstractDynamicDispatcher.enable_handoff`."""
        self._enable(handoff_name, True)

    def disable_handoff(self, handoff_name: str) -> None:
        """Show a handoff to models no more; see `AbstractDynamicDispatcher.disable_handoff`."""
        self._enable(handoff_name, False)

    def _enable(self, name: str, enabled: bool) -> None:
        entry = self._entry(name)
        if entry.enabled != enabled:
            self._entries[name] = replace(entry, enabled=enabled)
            self._tell("enabled" if enabled else "disabled", entry.handoff)

    def _entry(self, name: str) -> KnownHandoff:
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownHandoffError(name, list(self._entries)) from None

    def _tell(self, kind: Kind, handoff: Handoff, caller: str | None = None) -> None:
        if self._on_change is not None:
            self._on_change(HandoffChange(kind, handoff.name, handoff.target, caller))

    # Looking

    @property
    def handoffs(self) -> list[Handoff]:
        """All handoffs, in the order in which they were added."""
        return [entry.handoff for entry in self._entries.values()]

    @property
    def enabled_handoffs(self) -> list[Handoff]:
        """The enabled handoffs, in the order in which they were added, whatever their functions say."""
        return [entry.handoff for entry in self._entries.values() if entry.enabled]

    def offered(self, agent: str, messages: Sequence[LLMMessage] = ()) -> list[Handoff]:
        """The handoffs that an agent's model is shown now: enabled, and to targets that the agent is authorized for."""
        return [
            entry.handoff
            for entry in self._entries.values()
            if entry.enabled
            and self._authorization.allows(entry.handoff.target, agent)
            and (entry.when is None or entry.when(agent, messages))
        ]

    # Told by agents that use it

    def join(self, members: Sequence[str]) -> None:
        """Learn who is in the team; see `AbstractDispatcher.join`.

        Those of several teams are taken together. Handoffs that models created earlier are not offered any more when their
        targets are not in the team.
        """
        self._authorization.join(members)
        for entry in self._entries.values():
            if entry.origin != "created":
                self._authorization.check_member(entry.handoff.target)

    def begin_turn(self) -> list[Handoff]:
        """An agent begins a turn; see `AbstractDynamicDispatcher.begin_turn`."""
        self._turn += 1
        if self._lifetime is None:
            return []
        oldest = self._turn - self._lifetime
        expired = [one for one in self._entries.values() if one.origin == "created" and one.born < oldest]
        for entry in expired:
            self._delete(entry, "expired")
        return [entry.handoff for entry in expired]

    def handed_over(self, handoff_name: str) -> bool:
        """An agent hands over; see `AbstractDynamicDispatcher.handed_over`."""
        entry = self._entries.get(handoff_name)
        if entry is None or entry.origin != "created":
            return False
        used = self._entries[handoff_name] = replace(entry, uses=entry.uses + 1)
        if self._max_uses is None or used.uses < self._max_uses:
            return False
        self._delete(used, "used")
        return True

    def reset(self) -> None:
        """Forget the created handoffs; what the program did stays."""
        for entry in [one for one in self._entries.values() if one.origin == "created"]:
            self._delete(entry, "deleted")
        self._turn = 0

    # Its state

    async def save_state(self) -> Mapping[str, Any]:
        """Its state beyond the beginning, as plain data.

        Handoffs that were added with an input filter, a function or arguments are code: their flags are saved only. Add
        them in your program.
        """
        later = [one for one in self._entries.values() if one.origin != "given" and one.is_plain]
        return DynamicDispatcherState(
            turn=self._turn,
            handoffs=[SavedHandoff.of(entry) for entry in later],
            enabled={name: entry.enabled for name, entry in self._entries.items()},
            deleted=sorted(self._deleted),
        ).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; handoffs that are not in it and could be are gone.

        Authorization is not part of it. A saved handoff to a target that is not authorized any more is not offered.

        Raises:
            HandoffDeclarationError: It is no such state; nothing has changed (a ValueError).
        """
        saved, later = read_state(state, self._max_handoffs)
        deleted = set(saved.deleted)
        code = {
            name: replace(entry, enabled=saved.enabled.get(name, True))
            for name, entry in self._entries.items()
            if (entry.origin == "given" or not entry.is_plain) and name not in deleted
        }
        self._entries = {**{entry.handoff.name: entry for entry in later}, **code}
        self._deleted = deleted
        self._turn = saved.turn

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = other = copy.copy(self)  # entries and rules are values
        other._entries = dict(self._entries)
        other._deleted = set(self._deleted)
        other._authorization = copy.copy(self._authorization)
        return other


def _check_limits(**limits: int | None) -> None:
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise HandoffDeclarationError(f"{name} must be greater than 0, not {limit}")
