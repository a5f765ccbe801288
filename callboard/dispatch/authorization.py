"""To whom which agent may hand over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from .errors import DispatcherSettingError, TargetRefusedError

ANYBODY: Final = "*"
Targets: TypeAlias = Sequence[str] | Literal["*"]
Authorized: TypeAlias = Targets | Mapping[str, Targets] | None
"""The names of the targets; "*": anybody; a mapping: the targets of each agent by its name, and nobody for others; None:
nobody."""


class Authorization:
    """Says to whom agents may hand over. What is not allowed is forbidden.

    Args:
        given: Who may.
        outside: Targets that are allowed to be outside of the team.

    Raises:
        DispatcherSettingError: It is something else (a ValueError).
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
            caller: Who hands over; None: it is enough when somebody may.

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


def _targets(given: Targets) -> frozenset[str] | None:
    if given == ANYBODY:
        return None
    found: object = given  # programs without a type checker pass other things
    if isinstance(found, str) or not all(isinstance(name, str) for name in given):
        raise DispatcherSettingError(
            f'authorized agents are a list of names, or "*" for anybody, not {given!r}'
        )
    return frozenset(given)


def _listed(names: frozenset[str] | set[str | None] | set[str]) -> str:
    return f"there are: {', '.join(sorted(map(str, names)))}" if names else "nobody is"
