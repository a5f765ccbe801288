"""One agent of AutoGen's, as our runtime knows agents, and the cancellation tokens that reach it.

In AutoGen the token itself, an object, goes from handler to handler. Here a message carries the name of its token; a
process that has the token uses that object, any other makes one of its own, which is cancelled when the first is.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from callboard.broker import AgentId
from callboard.broker.ids import IdSource
from callboard.broker.remote_errors import register_error, text_of
from callboard.broker.retry import Buried
from callboard.core.context import MessageContext
from callboard.core.protocol import AgentMetadata, AgentRuntime
from callboard.core.state import get_state, set_state
from callboard.errors import DeclarationError

from .messages import Carried
from .translation import core, their_agent, their_topic

MOST_UNDER_WAY: Final = 100  # events that a handler has published and that have not arrived; then it waits


class Leaving:
    """The events that a handler has published: on their way while it goes on, and waited for at its end."""

    def __init__(self) -> None:
        self._under_way: list[asyncio.Future[bool]] = []
        self._is_over = False

    async def add(self, posted: asyncio.Future[bool]) -> None:
        """One more is on its way. A task that the handler has left behind waits for its own itself."""
        if self._is_over or len(self._under_way) >= MOST_UNDER_WAY:
            await posted
        else:
            self._under_way.append(posted)

    async def settle(self) -> None:
        """Waits until all have arrived; raises the error of the first one that could not."""
        self._is_over = True
        for error in await asyncio.gather(*self._under_way, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error


ASKED: Final = "GroupChatRequestPublish"
"""What a team's manager asks the member whose turn it is."""

ANSWERED: Final = frozenset({"GroupChatAgentResponse", "GroupChatMessage", "GroupChatError"})
BEGUN: Final = "GroupChatStart"
PASSED_ON: Final = frozenset({"GroupChatMessage", "GroupChatError", "GroupChatTermination"})
"""What a team's manager only passes on: its state, which grows with the conversation, is not taken anew for each event."""

run_here: ContextVar[str | None] = ContextVar("callboard_autogen_run", default=None)
"""Name of the token of the run that the running handler belongs to."""

leaving: ContextVar[Leaving | None] = ContextVar("callboard_autogen_leaving", default=None)
"""What the running handler has published."""


class HostedState(BaseModel):
    """The stored state of a hosted agent.

    Attributes:
        saved: what its `save_state` returned, as JSON; "": it has handled nothing yet.
    """

    # As text: it is written, compared and put aside as it is, however long the conversation that it holds.
    saved: str = ""


class HostedAgent:
    """An agent of AutoGen's that keeps what it knows in memory only, because it has no `save_state` of its own.

    Args:
        agent: the agent.
        agent_id: its id.
        tokens: those of this process.
    """

    reentrant: ClassVar[bool] = True  # AutoGen's agents may be asked while they wait
    lasting: ClassVar[bool] = True  # and live as long as their runtime

    def __init__(self, agent: Any, agent_id: AgentId, tokens: Tokens) -> None:
        self.agent = agent
        self.id = agent_id
        self._their_id = their_agent(agent_id)
        self._tokens = tokens
        self._run: str | None = None  # token of the team's run that this manager is in

    @property
    def metadata(self) -> AgentMetadata:
        """Who the agent is, as it says itself."""
        theirs: AgentMetadata = self.agent.metadata
        return theirs

    async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None:
        """Does nothing: the agent has been given its id and its runtime, which are AutoGen's."""

    async def on_message(self, message: Any, ctx: MessageContext) -> Any:
        """Has the agent handle a message."""
        return await self.enter(message, ctx)

    async def enter(self, message: Any, ctx: MessageContext) -> Carried:
        """Has the agent handle a message, maybe beside another, in the surroundings that AutoGen's runtime gives it."""
        carried = _heard(message)
        token = await self._tokens.named(carried.token)
        # The leader of a team dies while a member has its turn, and another process leads the next run. Without looking,
        # that manager would take the old turn's answer for one of its own: it fails with `list.remove(x)`, or goes on twice.
        said_in = carried.token or carried.run
        run = said_in or self._tokens.name_of(token)
        if self._is_of_another_run(carried.message, said_in, run):
            return Carried(None)
        context = core.MessageContext(
            sender=their_agent(ctx.sender),
            topic_id=their_topic(ctx.topic_id),
            is_rpc=ctx.is_rpc,
            cancellation_token=token,
            message_id=ctx.message_id,
        )
        published = Leaving()
        before, before_run = leaving.set(published), run_here.set(run)
        try:
            with core.MessageHandlerContext.populate_context(self._their_id):
                answer = await self.agent.on_message(carried.message, context)
            return Carried(answer)
        except Exception as error:
            # Its class is known where it was raised: who asked in this process gets the error itself, as in AutoGen.
            register_error(type(error))
            raise
        finally:
            leaving.reset(before)
            run_here.reset(before_run)
            await published.settle()

    def _is_of_another_run(self, message: Any, said_in: str | None, run: str | None) -> bool:
        """Whether a manager gets what was said in a run that it does not lead: each has a token of its own."""
        kind = type(message).__name__
        if kind == BEGUN:
            self._run = run
        is_answer = kind in ANSWERED and hasattr(self.agent, "_active_speakers")
        return is_answer and said_in is not None and said_in != self._run

    async def current(self) -> Any:
        """The agent, with what was stored of it last."""
        return self.agent

    async def save_state(self) -> Mapping[str, Any]:
        """The state that its `save_state` returns."""
        state: Mapping[str, Any] = await (await self.current()).save_state()
        return state

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Gives it a state."""
        await self.agent.load_state(state)

    async def close(self) -> None:
        """Closes it."""
        await self.agent.close()


def _heard(message: Any) -> Carried:
    """A message as it is carried. That a member can't take its turn is an error of the team, as its manager knows errors."""
    carried = message if isinstance(message, Carried) else Carried(message)
    buried = carried.message
    if not isinstance(buried, Buried):
        return carried
    events: Any = import_module("autogen_agentchat.teams._group_chat._events")
    why = buried.error or "its process ended, again and again"
    text = f"{buried.recipient} can't take its turn ({buried.reason}): {why}"
    return Carried(
        events.GroupChatError(
            error=events.SerializableException(error_type="MemberFailed", error_message=text)
        )
    )


class SavedAgent(HostedAgent):
    """An agent of AutoGen's whose `save_state` is stored with each message that it has handled.

    A handler that fails leaves the agent as it is then, as in AutoGen; stored is what the last one that succeeded left.
    """

    _state_model: ClassVar[type[BaseModel]] = HostedState

    def __init__(self, agent: Any, agent_id: AgentId, tokens: Tokens) -> None:
        super().__init__(agent, agent_id, tokens)
        self._held: HostedState | None = None

    async def on_message(self, message: Any, ctx: MessageContext) -> Any:
        """Has the agent handle a message; what it saves afterwards belongs to the commit."""
        await self.current()
        answer = await self.enter(message, ctx)
        if type(getattr(message, "message", None)).__name__ not in PASSED_ON:
            self._hold(await self._taken())
        return answer

    async def current(self) -> Any:
        """The agent, brought to what is stored when another process had it meanwhile."""
        stored: HostedState = get_state(self)
        if stored is not self._held:
            known = "" if self._held is None else self._held.saved
            if stored.saved and stored.saved != known:
                await self.agent.load_state(from_json(stored.saved))
            self._held = stored
        return self.agent

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Gives it a state, which is stored too."""
        await super().load_state(state)
        self._hold(HostedState(saved=to_json(state).decode()))

    async def _taken(self) -> HostedState:
        try:
            return HostedState(saved=to_json(await self.agent.save_state()).decode())
        except Exception as error:
            raise DeclarationError(
                f"save_state of {self.id} failed with {type(error).__name__}: {text_of(error)}",
                "what it returns has to fit into JSON. CallboardRuntime(save_states=False) does without",
            ) from error

    def _hold(self, state: HostedState) -> None:
        set_state(self, state)
        self._held = state


def class_for(agent_class: type[Any] | None, *, saves: bool) -> type[HostedAgent]:
    """How agents of a class are hosted.

    Args:
        agent_class: theirs; None: it is not known before the first one is made.
        saves: whether states are to be stored at all.
    """
    own = getattr(agent_class, "save_state", None)
    without = (core.BaseAgent.save_state, core.ClosureAgent.save_state)
    if not saves or agent_class is None or own is None or own in without:
        return HostedAgent
    return SavedAgent


PREFIX: Final = "token:"
KEPT: Final = 1_000  # tokens that are kept although no context holds them: their next message is on its way


class Tokens:
    """The tokens of one process.

    Args:
        tell: tells all processes that a token is cancelled.
        ask: whether a token was cancelled before this process knew of it.
    """

    def __init__(
        self, tell: Callable[[str], Awaitable[object]], ask: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._tell = tell
        self._ask = ask
        self._ids = IdSource()
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._by_name: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[str, Any] = OrderedDict()
        self._heard: set[str] = set()
        self._telling: set[asyncio.Future[object]] = set()

    def name_of(self, token: Any | None) -> str | None:
        """The name under which a token travels; None for no token."""
        if token is None:
            return None
        name = self._names.get(token)
        return self._add(token, PREFIX + self._ids.next()) if name is None else name

    async def named(self, name: str | None) -> Any:
        """The token of a message; without a name a new one, as AutoGen's runtime makes it."""
        if name is None:
            return core.CancellationToken()
        token = self._by_name.get(name)
        if token is None:
            is_cancelled = await self._ask(name)
            # Another message with this token may have come meanwhile.
            token = self._by_name.get(name)
            if token is None:
                token = core.CancellationToken()
                self._add(token, name)
                if is_cancelled:
                    self.hear(name)
        return token

    def hear(self, name: str) -> None:
        """A token was cancelled, here or in another process."""
        token = self._by_name.get(name)
        if token is not None and not token.is_cancelled():
            self._heard.add(name)
            token.cancel()

    async def close(self) -> None:
        """Waits until what was cancelled here has been told."""
        if self._telling:
            await asyncio.wait(self._telling)

    def _add(self, token: Any, name: str) -> str:
        self._names[token] = name
        self._by_name[name] = token
        self._recent[name] = token
        if len(self._recent) > KEPT:
            self._recent.popitem(last=False)
        # AutoGen calls callbacks inside of the token's lock, in whatever thread cancels: this one only passes it on.
        loop = asyncio.get_running_loop()
        token.add_callback(partial(_pass_on, loop, self._cancelled, name))
        return name

    def _cancelled(self, name: str) -> None:
        if name in self._heard:
            self._heard.discard(name)
            return
        telling = asyncio.ensure_future(self._tell(name))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)


def _pass_on(loop: asyncio.AbstractEventLoop, call: Callable[[str], None], name: str) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, name)
