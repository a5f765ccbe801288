"""The team: an environment with a task, a budget and a number of rounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .checking import check_count
from .context import Context, CostManager
from .environment import Environment
from .errors import NoMoneyException, RoleDeclarationError
from .memory import Memory
from .message import Message
from .names import MESSAGE_ROUTE_TO_ALL
from .role import Role


class Team:
    """Roles that are hired for a project, with a budget.

    ```python
    team = Team(context=context)
    team.hire([Writer(), Critic()])
    team.invest(3.0)
    team.run_project("A line about the sea")
    history = await team.run(n_round=5)
    ```

    Args:
        env: The environment; one of its own without.
        context: What the roles share; of the environment where one is given.
        **options: Of the environment, see there: `namespace`, `url`, `project`, ...

    Attributes:
        env: The environment.
        idea: The task.
    """

    def __init__(
        self, env: Environment | None = None, *, context: Context | None = None, **options: Any
    ) -> None:
        if env is not None and (options or context is not None):
            raise RoleDeclarationError("Team", "give an environment, or what one is made of")
        self.env = env or Environment(context, **options)
        self.idea = ""

    def hire(self, roles: Iterable[Role]) -> None:
        """Add roles; see `Environment.add_role`."""
        self.env.add_roles(roles)

    @property
    def cost_manager(self) -> CostManager:
        """What was spent, as of the last `run`."""
        return self.env.context.cost_manager

    def invest(self, investment: float) -> None:
        """Limit what language models may cost; see `Environment.invest`. The Context needs their prices.

        Args:
            investment: Most that may be spent from the beginning of the project, USD; 0: nothing.

        Raises:
            RoleDeclarationError: It is below 0, or no number (a ValueError).
        """
        self.env.invest(investment)

    def run_project(self, idea: str, send_to: Any = "") -> None:
        """Give the team its task.

        Args:
            idea: The task.
            send_to: Names or classes of roles; "": to all who watch UserRequirement.

        Raises:
            UnknownRoleError: There is no such role (a LookupError).
        """
        self.idea = idea
        self.env.publish_message(Message(idea, send_to=send_to or {MESSAGE_ROUTE_TO_ALL}))

    start_project = run_project

    async def run(self, n_round: int | None = None, idea: str = "", send_to: Any = "") -> Memory:
        """Work until nothing is left to do. Work that was given up for want of money is taken up again.

        Args:
            n_round: How often each role acts in what follows from a task, see `Message.max_rounds`; for tasks that have not
                been sent yet. None: `max_rounds` of the environment, three times unless another number was given.
            idea: As `run_project`.
            send_to: As `run_project`.

        Returns:
            What was said.

        Raises:
            NoMoneyException: The budget is spent; nothing is lost.
            RoleFailedError: A message was given up.
        """
        if n_round is not None:
            check_count("n_round", n_round)
            self.env.max_rounds = n_round
        if idea:
            self.run_project(idea, send_to)
        await self.env.flush()
        await self.env.look()
        self.cost_manager.check()
        await self.env.replay(NoMoneyException.__name__)
        await self.env.run()
        return self.env.history
