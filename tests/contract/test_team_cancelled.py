"""What is raised where a cancelled run is awaited: CancelledError only where it is one's own cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard import MessageContext, RoutedAgent, event
from callboard.agents import BaseChatAgent
from callboard.core.cancellation import CancellationToken
from callboard.runs import RunCancelledError, a_run
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, TeamClient, TeamRunError
from callboard.teams.group_chat import host
from tests.helpers.chat import Echo
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes


class Waits(Echo):
    """Never answers."""

    async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Any:
        await asyncio.Event().wait()


def a_team(member: BaseChatAgent) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([member], name="team", max_turns=1)


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    await host(a_team(Waits("a")), made, "team")
    made.start()
    return made


async def speaks(client: TeamClient) -> None:
    async def is_speaking() -> bool:
        return (await client.status()).waiting == ["a"]

    await eventually(is_speaking)


async def test_a_handler_whose_run_an_operator_cancels_gets_an_error_once(
    runtimes: Runtimes, runtime: RedisAgentRuntime
) -> None:
    caught: list[str] = []

    class Desk(RoutedAgent):
        """Has a team answer."""

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            try:
                await TeamClient(runtime, "team").run(task=message.text)
            except RunCancelledError as error:
                caught.append(str(error))

    desks = runtimes.new()
    await Desk.register(desks, "desk", lambda: Desk("asks"))
    desks.start()
    await desks.tell(Note(text="go"), "desk/1")
    client = TeamClient(runtime, "team")
    await speaks(client)
    assert await client.abort()
    await eventually(lambda: caught)
    await desks.stop_when_idle()
    assert len(caught) == 1


async def test_all_who_read_a_run_hear_that_it_was_cancelled(runtime: RedisAgentRuntime) -> None:
    client, token = TeamClient(runtime, "team"), CancellationToken()

    async def follow() -> None:
        async for _ in client.follow(run_id):
            pass

    run_id = await client.start(task="go")
    other = asyncio.ensure_future(client.run(task="go", run_id=run_id))
    reading = asyncio.ensure_future(follow())
    await speaks(client)
    assert await client.abort()
    for waiting in (other, reading):
        with pytest.raises(RunCancelledError, match=run_id):
            await waiting
    mine = asyncio.ensure_future(client.run(task="go", cancellation_token=token))
    await speaks(client)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await mine


async def test_in_one_process_the_rule_is_the_same() -> None:
    token = CancellationToken()
    running = asyncio.ensure_future(a_team(Waits("a")).run(task="go", cancellation_token=token))
    await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    response = await a_run(a_team(Waits("a")), message="go")
    await response.cancel()
    with pytest.raises(RunCancelledError):
        await response.result()

    class Hasty(Echo):
        """Awaits what somebody cancels."""

        async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Any:
            work = asyncio.ensure_future(asyncio.sleep(9))
            asyncio.get_running_loop().call_soon(work.cancel)
            await work

    with pytest.raises(TeamRunError, match="what it awaited was cancelled"):
        await a_team(Hasty("a")).run(task="go")
