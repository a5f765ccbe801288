"""What a role has at hand while it acts: its `rc`."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from .action import Action
from .errors import NoEnvironmentError
from .memory import Memory
from .message import Message
from .surroundings import Surroundings


class RoleReactMode(StrEnum):
    """How a role with several actions chooses."""

    REACT = "react"
    BY_ORDER = "by_order"
    PLAN_AND_ACT = "plan_and_act"

    @classmethod
    def values(cls) -> list[str]:
        """All of them."""
        return [mode.value for mode in cls]


class RoleContext:
    """What a role has at hand.

    Attributes:
        memory: What it got and made; in an environment it is part of every commit.
        news: What it answers to now: one message, or those that it hears together.
        todo: The action that is next; None: none.
        state: Number of that action, from 0; -1: none.
        watch: The actions that it hears, as ``module.Class``.
        joined: Those of them whose subtasks it hears together.
        react_mode: How it chooses.
        max_react_loop: Most actions for one message, in the mode "react".
        round: Which time this is that it acts on this work, from 1.
        max_rounds: How often it may; None: without end.
    """

    def __init__(self, role_name: str = "") -> None:
        self.memory = Memory()
        self.news: list[Message] = []
        self.todo: Action | None = None
        self.state = -1
        self.watch: set[str] = set()
        self.joined: set[str] = set()
        self.react_mode = RoleReactMode.REACT
        self.max_react_loop = 1
        self.round = 1
        self.max_rounds: int | None = None
        self._role_name = role_name
        self._env: Surroundings | None = None

    @property
    def env(self) -> Surroundings:
        """The environment.

        Raises:
            NoEnvironmentError: It is in none (a RuntimeError).
        """
        if self._env is None:
            raise NoEnvironmentError(self._role_name)
        return self._env

    @env.setter
    def env(self, env: Surroundings) -> None:
        self._env = env

    @property
    def has_env(self) -> bool:
        """Whether it is in one."""
        return self._env is not None

    @property
    def is_last_round(self) -> bool:
        """Whether it will not act on this work again."""
        return self.max_rounds is not None and self.round >= self.max_rounds

    @property
    def history(self) -> list[Message]:
        """All that it remembers, oldest first."""
        return self.memory.get()

    @property
    def important_memory(self) -> list[Message]:
        """What it remembers of the actions that it watches."""
        return self.memory.get_by_actions(self.watch)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """One for another agent of the same role: the same rules, and nothing remembered."""
        twin = type(self)(self._role_name)
        for name in ("watch", "joined", "react_mode", "max_react_loop", "_env"):
            value = getattr(self, name)
            setattr(twin, name, set(value) if isinstance(value, set) else value)
        memo[id(self)] = twin
        return twin
