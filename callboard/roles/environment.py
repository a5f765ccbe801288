"""The environment: its roles, what they say, what the server knows of the project; and the team with its budget."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from callboard.broker import AgentId, BrokerSettings
from callboard.broker.redis.operations.deadletters import (
    DeadLetterRecord,
    HandledLetters,
    letters_after,
    list_letters,
    replay,
)
from callboard.broker.redis.store import RedisStore
from callboard.core.cancellation import UNSET, Unset
from callboard.core.declaration import AgentOptions, AgentSettings
from callboard.models import UsageLedger
from callboard.runtime.execution import usage_run
from callboard.runtime.runtime import RedisAgentRuntime, on_bus

from .action import Context, CostManager
from .actor import Cast, OwnRuntime, acting_now, declare_roles
from .errors import EnvironmentStateError, NoMoneyException, RoleDeclarationError, RoleFailedError
from .message import (
    MESSAGE_ROUTE_TO_ALL,
    MESSAGE_ROUTE_TO_NONE,
    Memory,
    Message,
    plain_message,
)
from .role import Role
from .routing import SEPARATOR, Rounds, bring_in, check_count, is_amount, project_of

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.core.protocol import AgentRuntime

NO_MONEY: Final = NoMoneyException.__name__


class Project:
    """One project on the server: what was said in it, what it costs, and what was given up.

    Args:
        runtime: The connection.
        project: The project.
        history: Where what was said is added.
    """

    def __init__(self, runtime: RedisAgentRuntime, project: str, history: Memory) -> None:
        self._runtime = runtime
        self._project = project
        self._history = history
        self._number = 0
        self._newest: dict[str, str] = {}  # id of the newest letter that is known, by role

    async def read_history(self) -> None:
        """Add what was said since the last time."""
        entries = self._runtime.read_run(self._project, after=self._number, live=False)
        async for entry in entries:
            self._number = entry.number
            if isinstance(entry.event, Message):
                self._history.add(entry.event)

    async def read_costs(self, costs: CostManager) -> None:
        """See what was spent, and what may be."""
        scope = f"run:{self._project}"
        costs.spent = await self._ledger.spent(scope)
        stored = await self._store.table(f"usage:{scope}")
        limit = stored.get("limit_usd")
        costs.max_budget = None if limit is None else float(limit)

    async def has_questions(self) -> bool:
        """Whether a person is asked something in the project."""
        return bool(await self._runtime.inputs.list(run=self._project))

    async def limit(self, usd: float) -> None:
        """Set the budget, for every process."""
        await self._ledger.limit(f"run:{self._project}", usd=usd)

    async def pass_over_old_letters(self, agent_types: Iterable[str]) -> None:
        """Know the letters of until now."""
        for agent_type in agent_types:
            for letter in await list_letters(self._runtime.transport, agent_type, 1):
                self._newest[agent_type] = letter.id

    async def failure(self, agent_types: Iterable[str]) -> Exception | None:
        """Why messages were given up since the last time, as an error; None: none was."""
        letters = await self._new_letters(agent_types)
        if not letters:
            return None
        first = letters[0]
        if first.error.startswith(NO_MONEY):
            # As it was when it was raised: by now there may be more money, or less may be set aside.
            return NoMoneyException.told_by(first.error) or NoMoneyException(*await self._money())
        return RoleFailedError(
            first.agent_type,
            first.error or first.reason,
            first.message_id,
            len(letters) - 1,
            self._runtime.transport.keys.namespace,
        )

    async def _money(self) -> tuple[float, float]:
        costs = CostManager()
        await self.read_costs(costs)
        return costs.total_cost, costs.max_budget or 0.0

    async def replay(self, agent_types: Iterable[str], error: str = "") -> int:
        """Send messages again that were given up.

        Args:
            agent_types: Of the roles.
            error: Name of the class of the error that ended them; "": whatever it was.

        Returns:
            How many.
        """
        count = 0
        for agent_type in agent_types:
            letters = letters_after(self._runtime.transport, agent_type)
            # guard: all that was given up is sent again, however much it is
            ids = [one.id async for one in letters if self._is_here(one) and one.error.startswith(error)]
            done: HandledLetters = await replay(self._runtime.transport, agent_type, ids)
            count += len(done.done)
        return count

    async def reset(self, agent_types: Iterable[str]) -> None:
        """Forget what the roles remember, and what was said."""
        for agent_type in agent_types:
            for key in await self._runtime.transport.stored_keys(agent_type):
                if project_of(key) == self._project:
                    await self._runtime.control.reset(AgentId(agent_type, key))
        await self._runtime.delete_run(self._project)

    async def _new_letters(self, agent_types: Iterable[str]) -> list[DeadLetterRecord]:
        new: list[DeadLetterRecord] = []
        for agent_type in agent_types:
            known = self._newest.get(agent_type, "")
            async for letter in letters_after(self._runtime.transport, agent_type, known):
                self._newest[agent_type] = letter.id
                if self._is_here(letter):
                    new.append(letter)
        return sorted(new, key=lambda letter: letter.last)

    def _is_here(self, letter: DeadLetterRecord) -> bool:
        return project_of(letter.key) == self._project

    @property
    def _store(self) -> RedisStore:
        return RedisStore(self._runtime.transport.admin)

    @property
    def _ledger(self) -> UsageLedger:
        return UsageLedger(self._store)


MAIN = "main"
HOPS = 1000
PAUSE = 0.1  # seconds between two looks at whether a person has answered
AT_ONCE = 100  # messages from outside that are sent together


class Environment:
    """Roles that hear each other.

    ```python
    env = Environment()
    env.add_roles([Writer(), Critic()])
    env.publish_message(Message("A line about the sea", send_to=Writer))
    while not env.is_idle:
        await env.run()
    ```

    It runs in this process, on the server that `url` names; without one on the embedded server, which it starts. `declare`
    adds its roles to an App instead, for a process of each of them.

    Args:
        context: What the roles share.
        desc: What it is for.
        project: What the work belongs to; its agents, history and budget are its own. Without "/".
        url: The server, such as redis://... or memory://; None: CALLBOARD_URL, else REDIS_URL, else the embedded server.
        namespace: Give one, and a program that is started again goes on where it was. None: CALLBOARD_NAMESPACE, else
            all is gone with the event loop.
        settings: Everything else about its use of the server; None: from environment variables.
        max_rounds: How often each role acts in what follows from a message that says nothing else; None: without end. Left
            out: three times, and a warning where that ends a loop.
        max_hops: How many acts may follow one from the other; then the message is given up.

    Attributes:
        context, desc, project: See above.
        cast: Its roles, and who gets what among them.
        history: What was said in the project, as of the last `run`.

    Raises:
        RoleDeclarationError: The project has a "/" or is empty, or a bound is below 1 (a ValueError).
    """

    def __init__(
        self,
        context: Context | None = None,
        *,
        desc: str = "",
        project: str = MAIN,
        url: str | None = None,
        namespace: str | None = None,
        settings: BrokerSettings | None = None,
        max_rounds: int | Unset | None = UNSET,
        max_hops: int = HOPS,
    ) -> None:
        if not project or SEPARATOR in str(project):
            raise RoleDeclarationError("project", f"{project!r} has to be a name without {SEPARATOR!r}")
        check_count("max_hops", max_hops)
        self.context = context or Context()
        self.desc = desc
        self.project = project
        self.cast = Cast(max_hops)
        self.history = Memory()
        self._place = (url, namespace, settings)
        self._outbox: list[Message] = []
        self._budget: float | None = None
        self._given: RedisAgentRuntime | None = None
        self._own: OwnRuntime | None = None
        self._opened_project: Project | None = None
        self._opening = asyncio.Lock()
        self._sending = asyncio.Lock()
        self._idle_at = -1
        self._rounds = Rounds(max_rounds)

    @property
    def max_rounds(self) -> int | None:
        """How often each role acts in what follows from a message that says nothing else; None: without end."""
        return self._rounds.most

    @max_rounds.setter
    def max_rounds(self, most: int | None) -> None:
        self._rounds.most = most

    def add_role(self, role: Role) -> None:
        """Add a role.

        Raises:
            RoleDeclarationError: There is one of its name, or of its class when it has no name; or its name is one of those
                that stand for all, none or oneself (a ValueError).
        """
        self.cast.add(role)
        role.rc.env = self

    def add_roles(self, roles: Iterable[Role]) -> None:
        """Add several; see `add_role`."""
        for role in roles:
            self.add_role(role)

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles by name."""
        return dict(self.cast.roles)

    def get_roles(self) -> dict[str, Role]:
        """The roles by name."""
        return dict(self.cast.roles)

    def get_role(self, name: str) -> Role:
        """One of them, by a name that it has in `send_to`.

        Raises:
            UnknownRoleError: There is none (a LookupError).
        """
        return self.cast.called(name)

    def role_names(self) -> list[str]:
        """The names of the roles."""
        return list(self.cast.roles)

    @property
    def max_hops(self) -> int:
        """How many acts may follow one from the other; then the message is given up."""
        return self.cast.max_hops

    @max_hops.setter
    def max_hops(self, most: int) -> None:
        self.cast.max_hops = most

    # Messages

    def publish_message(self, message: Message, peekable: bool = True) -> bool:
        """Send a message to whom it names, or to who watches its action.

        In a role that acts it leaves with the commit of the act: with a failed attempt it is gone. Outside it is kept until
        `run` or `flush`.

        Args:
            message: The message.
            peekable: Of no meaning; for programs that give it.

        Returns:
            Whether a role hears it. A message that none hears is in the history, as a result.

        Raises:
            UnknownRoleError: It names a role that is not there; it is not sent (a LookupError).
            MessageDataError: The class of its content is not known; it is not sent (a ValueError).
        """
        self.cast.routing.check(message)
        self.cast.stir()
        acting = acting_now()
        if acting is not None:
            return self.cast.routing.is_heard(acting.say(message), acting.sender)
        if MESSAGE_ROUTE_TO_NONE not in message.send_to:
            self._outbox.append(message)
        return self.cast.routing.is_heard(message)

    @property
    def results(self) -> list[Message]:
        """The results, as of the last `run`: messages that no role hears."""
        return [
            message
            for message in self.history.get()
            if not self.cast.routing.is_heard(message, self.cast.routing.type_called(message.sent_from))
        ]

    @property
    def cut_short(self) -> list[Message]:
        """Those of the results that a role would have answered, but that its rounds are over: see `max_rounds`."""
        return [message for message in self.results if self.cast.routing.is_cut_short(message)]

    # Working

    async def run(self) -> None:
        """Let the roles work until nothing is left to do and no person is asked.

        A message whose role fails is tried again; when it is given up, the others go on, and this says so at its end.

        Raises:
            NoMoneyException: The budget is spent. After `Team.invest`, `replay` goes on with what was given up.
            RoleFailedError: A message was given up.
            ServerUnavailableError: No server answers.
        """
        runtime, project = await self._opened()
        await self.flush()
        while not await self._settles(runtime, project):
            await runtime.until_idle()
        self._rounds.tell(self.project, self.cut_short)
        failure = await project.failure(self.cast.roles)
        if failure is not None:
            raise failure

    async def _settles(self, runtime: RedisAgentRuntime, project: Project) -> bool:
        """Whether nothing was left to do before and after this process learned all that was said; then it is idle."""
        changes, before = self.cast.changes, await runtime.transport.idle()
        await self.look()
        # A role that asks a person holds no message until the answer comes, so the server calls its streams idle: `run`
        # would return, and the process that is to act on the answer would end.
        # guard: who waits for a person is not idle
        if await project.has_questions():
            await asyncio.sleep(PAUSE)
            return False
        # Two looks: between the first one and `look`, another process may commit an act. If the second look finds the same
        # numbers, nothing was committed in between, and the history that was read has all of it.
        after = await runtime.transport.idle()
        if any(before[:3]) or before != after or changes != self.cast.changes:
            return False
        self._idle_at = changes
        return True

    async def flush(self) -> None:
        """Send what was published outside of roles; for programs that leave the work to other processes.

        Raises:
            ServerUnavailableError: No server answers; nothing is lost, and another call sends the rest.
        """
        runtime, project = await self._opened()
        if self._budget is not None:
            await project.limit(self._budget)
            self._budget = None
        with usage_run(self.project):
            # One at a time: two calls would both send the front of the outbox, and the second `del` would take out messages
            # that neither has sent.
            async with self._sending:
                while self._outbox:
                    batch = [self._rounds.bounded(plain_message(one)) for one in self._outbox[:AT_ONCE]]
                    await bring_in(runtime, self.cast.routing, batch, self.project)
                    del self._outbox[: len(batch)]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do, as far as is known.

        True only when the server said so to a `run`, and this process has neither sent nor handled anything since. Before
        the first `run` it is not known, and False: a program that was started again goes on by this.
        """
        # A task beside `run` may publish after the server said idle, and before this is asked: `_idle_at` is older than the
        # last change then. A loop `while not env.is_idle` would end, and leave the message in the outbox.
        # guard: what was idle before something happened is not known to be so now
        return not self._outbox and self._idle_at == self.cast.changes and not self._has_ended

    def invest(self, usd: float) -> None:
        """Limit what language models may cost in the project, in all processes; it is set with the next `run`.

        Args:
            usd: Most that may be spent from the beginning of the project, USD; 0: nothing.

        Raises:
            RoleDeclarationError: It is below 0, or no number, or the Context has no price of its model (a ValueError).
        """
        # guard: what is no number would limit nothing
        if not is_amount(usd):
            raise RoleDeclarationError("invest", f"{usd!r} USD can't be a limit: give 0 or more")
        self.context.check_price()
        self._budget = usd
        self.context.cost_manager.max_budget = usd

    async def runtime(self) -> RedisAgentRuntime:
        """The runtime below, connected: for `inputs`, `control`, `read_run` and the like."""
        return (await self._opened())[0]

    async def look(self) -> None:
        """Bring `history` and the costs of the context up to date, without working."""
        _, project = await self._opened()
        await project.read_history()
        await project.read_costs(self.context.cost_manager)

    async def replay(self, error: str = "") -> int:
        """Send messages again that were given up in this project; before them, what was published and invested.

        Args:
            error: Only those that ended with an error of this class, such as "NoMoneyException"; "": all.

        Returns:
            How many.
        """
        _, project = await self._opened()
        # A worker may take the message before `replay` returns. If the new limit came later, it would be given up again for
        # want of money that is there.
        # guard: what was invested counts before anything is sent again, which may be handled at once
        await self.flush()
        self.cast.stir()
        return await project.replay(self.cast.roles, error)

    async def reset(self) -> None:
        """Forget the project: what its roles remember, and its history. Messages that are under way go on."""
        _, project = await self._opened()
        await project.reset(self.cast.roles)
        self.history.clear()
        self._opened_project = None
        self.cast.stir()

    # Where it runs

    def declare(
        self,
        app: App,
        *,
        processes: Mapping[str, int] | None = None,
        **settings: Unpack[AgentOptions],
    ) -> None:
        """Declare each role as an agent type of an App; `callboard up` runs a process of each.

        Args:
            app: The App.
            processes: How many processes of a role share its work, by its name; 1 where it is not named.
            **settings: The fields of AgentSettings, for all of them.

        Raises:
            DuplicateAgentTypeError: A name is taken (a ValueError).
            UnknownRoleError: `processes` names a role that is not there (a LookupError).
        """
        counts = {self.get_role(name).agent_type: count for name, count in (processes or {}).items()}
        declare_roles(app, self.cast, counts, AgentSettings.of(settings))

    def on(self, runtime: AgentRuntime, project: str = MAIN) -> Environment:
        """The same roles in a project of a runtime that is there: for programs beside the processes that do the work.

        Args:
            runtime: Such as ``app.running(types=[])`` gives, or `self.runtime` in a handler.
            project: See Environment.
        """
        env = Environment(self.context, desc=self.desc, project=project, max_hops=self.max_hops)
        env._rounds, env.cast = self._rounds.alike(), self.cast.elsewhere()
        env._given = on_bus(runtime)
        env._given.add_message_types([Message])
        return env

    async def _opened(self) -> tuple[RedisAgentRuntime, Project]:
        async with self._opening:
            runtime = self._given or await self._of_its_own()
            if self._opened_project is None:
                await runtime.open()
                self._opened_project = Project(runtime, self.project, self.history)
                await self._opened_project.pass_over_old_letters(self.cast.roles)
            return runtime, self._opened_project

    async def _of_its_own(self) -> RedisAgentRuntime:
        if self._has_ended:
            self._forget_runtime()
        if not self.cast.roles:
            raise EnvironmentStateError("there are no roles: env.add_roles([...]) comes first")
        own = self._own or OwnRuntime(*self._place)
        await own.host(self.cast)
        if self._own is None:
            await own.start()
        self._own = own
        return own.runtime

    @property
    def _has_ended(self) -> bool:
        """Whether its runtime ended, with its event loop."""
        return self._own is not None and not self._own.is_open

    def _forget_runtime(self) -> None:
        self._own, self._opened_project = None, None
        self.cast.stir()

    async def close(self) -> None:
        """End what runs in this process; without it that happens at the end of the event loop. Safe to repeat."""
        if self._own is not None:
            own = self._own
            self._forget_runtime()
            await own.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: roles that are copied stay in it."""
        return self

    def __repr__(self) -> str:
        return f"<Environment {self.project}: {', '.join(self.cast.roles) or 'no roles'}>"


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
        """Costs, as of the last `run`."""
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
