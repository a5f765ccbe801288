"""A dispatcher whose handoffs come and go."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from callboard.agents.handoff import Handoff
from callboard.memory.llm_messages import LLMMessage

from .authorization import Authorization, Authorized
from .base import AbstractDynamicDispatcher
from .changes import HandoffChange, Kind
from .entries import EnabledFunc, Entry, Origin, check_handoff, check_texts
from .errors import DispatcherSettingError, DuplicateHandoffError, HandoffLimitError, UnknownHandoffError
from .state import DynamicDispatcherState, SavedHandoff, read_state

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
            None: nobody, so that `handoffs` are refused, too.
        handoffs: Handoffs to begin with, all enabled.
        max_handoffs: The most handoffs there may be, disabled ones among them.
        lifetime: In how many turns of its agents, after the one in which it was created, a handoff may still be used; None:
            in any.
        max_uses: How often a created handoff may be used; None: as often as you like. Its message was written for one
            occasion.
        outside: Targets that need not be in the team, such as the person that a HandoffTermination waits for.
        on_change: Told of every change, for audits. A handler that is run again tells it again.

    Raises:
        DispatcherSettingError: A limit or the authorized agents can't be these (a ValueError).
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
        self._entries: dict[str, Entry] = {}
        self._deleted: set[str] = set()  # of those that the constructor was given
        self._turn = 0
        for handoff in handoffs or ():
            self._add(Entry(check_handoff(handoff), "given"))

    # Coming and going

    def create_handoff(
        self, name: str, target: str, description: str, message: str, *, caller: str | None = None
    ) -> Handoff:
        """Create and add a handoff, enabled; see `AbstractDynamicDispatcher.create_handoff`.

        Raises:
            HandoffDeclarationError: The name is none for a tool, or the description has more than 1,024 characters (a
                ValueError).
            DuplicateHandoffError: There is one of this name (a ValueError).
            TargetRefusedError: The target is not authorized, not in the team, or the caller itself (a ValueError).
            HandoffLimitError: There are too many (a ValueError).
        """
        if name:
            check_texts(name, description)
        handoff = Handoff(target=target, description=description, name=name, message=message)
        self._add(Entry(check_handoff(handoff), "created", born=self._turn), caller)
        return handoff

    def add_handoff(self, handoff: Handoff, enabled: bool | EnabledFunc = True) -> None:
        """Add a handoff.

        Args:
            handoff: The handoff.
            enabled: Whether models are shown it; or a function that says so before each request to a model.

        Raises:
            NotAHandoffError: It is none (a TypeError).
            DispatchError: As `create_handoff`.
        """
        given = check_handoff(handoff)
        if callable(enabled):
            self._add(Entry(given, "added", when=enabled))
        else:
            self._add(Entry(given, "added", enabled))

    def _add(self, entry: Entry, caller: str | None = None) -> None:
        handoff = entry.handoff
        self._authorization.check(handoff.target, caller)
        if handoff.name in self._entries:
            raise DuplicateHandoffError(handoff.name)
        if len(self._entries) >= self._max_handoffs:
            raise HandoffLimitError(self._max_handoffs)
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

    def _delete(self, entry: Entry, kind: Kind) -> None:
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

    def _entry(self, name: str) -> Entry:
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
        """What there is beyond the beginning, as plain data.

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
            DispatcherStateError: It is no such state; nothing has changed (a ValueError).
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
            raise DispatcherSettingError(f"{name} must be greater than 0, not {limit}")
