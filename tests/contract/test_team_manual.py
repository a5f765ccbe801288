"""People who choose speakers on the bus: the manager asks, and neither waits itself nor keeps a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from callboard.broker.redis.client.questions import InputStatus
from callboard.core.people import InputRequest
from callboard.errors import InputWithdrawnError
from callboard.groupchat import ConversationMessage, GroupChat, GroupChatManager
from callboard.messages import BaseChatMessage, InputAnsweredEvent, InputRequestedEvent
from callboard.runs import (
    AsyncRunResponse,
    ManualChatManager,
    a_run,
    ask_user,
    is_async_input_request,
)
from callboard.teams import (
    BaseGroupChat,
    Choice,
    Floor,
    RoundRobinGroupChat,
    SpeakerSelection,
    TeamClient,
    TeamRunError,
)
from callboard.teams.protocol import Consulted
from tests.helpers.chat import Echo
from tests.helpers.eventually import eventually
from tests.helpers.run_agents import chatterer
from tests.helpers.runtimes import Runtimes, stored

pytestmark = pytest.mark.real_server(
    "what it is about has nothing to do with the server, and memory:// is slow"
)


def a_group(method: Any = "manual", max_round: int = 3) -> GroupChatManager:
    chat = GroupChat(
        [chatterer(name) for name in "abc"], speaker_selection_method=method, max_round=max_round
    )
    return GroupChatManager(chat, name="lessons", silent=True)


async def asked(client: TeamClient) -> InputRequest:
    """The one question that is open."""
    found: list[InputRequest] = []

    async def is_there() -> bool:
        found[:] = await client.questions()
        return len(found) == 1

    await eventually(is_there)
    return found[0]


async def test_a_person_chooses_from_anywhere_and_restarts_change_nothing(runtimes: Runtimes) -> None:
    first = runtimes.new()
    first.start()
    await a_group().team(runtime=first).save_state()  # registers it
    client = TeamClient(first, "lessons", "monday")
    run_id = await client.start(task="Hi")
    question = await asked(client)
    assert (question.question, question.choices) == (
        "Who speaks next? (`q`: the next one in the list)",
        ("a", "b", "c", "q"),
    )
    assert (await client.status()).state == "input_required"  # the manager answers although it waits
    await first.stop_when_idle()  # to wait for a person is nothing left to do
    await first.close()

    second = runtimes.new()
    second.start()
    await a_group().team(runtime=second).save_state()
    client = TeamClient(second, "lessons", "monday")
    await client.answer((await asked(client)).id, "c")
    seen = []
    async for item in client.follow(run_id):
        seen.append(item)
        if isinstance(item, InputRequestedEvent) and item.request_id != question.id:
            await client.answer(item.request_id, "q")
    told = [item for item in seen if isinstance(item, BaseChatMessage)]
    assert [message.source for message in told] == ["user", "c", "a"]
    events = [item for item in seen if isinstance(item, InputRequestedEvent | InputAnsweredEvent)]
    assert [type(event) for event in events] == [InputRequestedEvent, InputAnsweredEvent] * 2
    assert {event.source for event in events} == {"lessons"}
    await second.stop_when_idle()
    assert await stored(second, "inputs", "suspended:", "state:lessons:monday (asks)") == []


async def test_orders_reach_a_manager_that_asks(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    runtime.start()
    await a_group().team(runtime=runtime).save_state()
    client = TeamClient(runtime, "lessons", "monday")
    run_id = await client.start(task="Hi")
    question = await asked(client)
    assert await client.pause()
    stray = Consulted(id="another", name="speaker:1", status=InputStatus.ANSWERED, answer='"a"')
    await runtime.tell(stray, "lessons/monday")
    assert (await client.status()).waiting == []  # it is heard in its place, and means nothing
    await client.answer(question.id, "b")
    await eventually(lambda: waiting(client, ["b"]))
    assert (await client.status()).is_held
    assert await client.resume()
    question = await asked(client)
    assert await client.abort(run_id)

    async def is_withdrawn() -> bool:
        return (await runtime.inputs.get(question.id)).status == "withdrawn"

    await eventually(is_withdrawn)
    with pytest.raises(InputWithdrawnError):
        await client.answer(question.id, "a")
    again = await client.start(task="Hi again")
    await client.answer((await asked(client)).id, "a")
    question = await asked(client)
    assert await client.stop()
    assert (await client.describe(again)).state == "idle"


class Counting(SpeakerSelection):
    """Asks who speaks, and counts how often it has chosen."""

    def __init__(self) -> None:
        self.count = 0

    async def select(self, floor: Floor) -> Choice:
        self.count += 1
        name = await ask_user("Who?", choices=floor.names)
        COUNTED.append(self.count)
        return Choice([name])

    async def save_state(self) -> Mapping[str, Any]:
        return {"count": self.count}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.count = state["count"]


COUNTED: list[int] = []


class CountingTeam(BaseGroupChat):
    def __init__(self, participants: Sequence[Any], **options: Any) -> None:
        super().__init__(participants, description="", manager_name="counter", **options)

    def new_selection(self) -> SpeakerSelection:
        return Counting()


async def test_a_strategy_chooses_once_although_it_is_called_again_with_the_answer(
    runtimes: Runtimes,
) -> None:
    runtime = runtimes.new()
    runtime.start()
    COUNTED.clear()
    team = CountingTeam([Echo("a"), Echo("b")], name="lessons", max_turns=2, runtime=runtime)
    await team.save_state()
    response = await a_run(team, message="Hi", runtime=runtime)
    assert await speakers(response, ["b", "a"]) == ["user", "b", "a"]
    assert COUNTED == [1, 2]


async def waiting(client: TeamClient, names: list[str]) -> bool:
    return (await client.status()).waiting == names


async def test_a_nested_group_asks_in_the_outermost_run(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    runtime.start()
    team = RoundRobinGroupChat(
        [a_group(max_round=2).team()],
        name="school",
        max_turns=1,
        runtime=runtime,
        custom_message_types=[ConversationMessage],
    )
    await team.save_state()
    client = TeamClient(runtime, "school", "monday")
    run_id = await client.start(task="Hi")
    question = await asked(client)
    assert (await client.status()).state == "input_required"
    await client.answer(question.id, "b")
    seen = [item async for item in client.follow(run_id)]
    assert [item.source for item in seen if isinstance(item, BaseChatMessage)] == ["user", "b"]
    assert [item.request_id for item in seen if isinstance(item, InputRequestedEvent)] == [question.id]


async def test_a_question_that_is_withdrawn_fails_the_run(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    runtime.start()
    await a_group().team(runtime=runtime).save_state()
    client = TeamClient(runtime, "lessons", "monday")
    run_id = await client.start(task="Hi")
    await runtime.inputs.withdraw((await asked(client)).id)
    with pytest.raises(TeamRunError, match="withdrawn"):
        async for _ in client.follow(run_id):
            pass


async def test_a_chat_manager_of_a_run_asks_and_a_function_asks_several_times(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    runtime.start()
    response = await a_run(
        chatterer("a"),
        chatterer("b"),
        message="Hi",
        max_turns=2,
        chat_manager=ManualChatManager(),
        runtime=runtime,
    )
    assert await speakers(response, ["b", "a"]) == ["user", "b", "a"]

    class Careful(ManualChatManager):
        async def get_next_agent(self, response: Any) -> Any:
            name = await ask_user("Who?", choices=self.agent_names)
            return self.agent_named(name) if await ask_user("Sure?", answer_type=bool) else self.agents[0]

    response = await a_run(
        chatterer("c"), chatterer("d"), message="Hi", max_turns=2, chat_manager=Careful(), runtime=runtime
    )
    assert await speakers(response, ["d", True, "d", False]) == ["user", "d", "c"]


async def speakers(response: AsyncRunResponse, answers: list[Any]) -> list[str]:
    given = iter(answers)
    async for event in response.events:
        if is_async_input_request(event):
            await event.a_respond(next(given))
    return [message["sender"] for message in await response.messages]
