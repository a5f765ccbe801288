"""One text over all clients of models: each is asked the same, by a server that speaks its maker's API.

What a maker does not have, its dialect says; all else is the same for each.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, TypeAlias

import pytest
from pydantic import BaseModel

from callboard.core.cancellation import CancellationToken
from callboard.foundation.tasks import run_in_loop
from callboard.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    ModelRetries,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from callboard.models.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    ContextLengthError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelTimeoutError,
    QuotaExceededError,
    RateLimitError,
)
from tests.helpers.anthropic_dialect import AnthropicDialect
from tests.helpers.dialects import ANYWHERE, REQUEST_ID, Call, Dialect, Failure, Kind, Said, Script
from tests.helpers.gemini_dialect import GeminiDialect
from tests.helpers.openai_dialects import OllamaDialect, OpenAIDialect
from tests.helpers.openai_server import Behaviour, OpenAIServer, Raw, Slow
from tests.helpers.responses_dialect import ResponsesDialect

DIALECTS: Final[list[Dialect]] = [
    OpenAIDialect(),
    OllamaDialect(),
    AnthropicDialect(),
    GeminiDialect(),
    ResponsesDialect(),
]
VARIABLES: Final = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
)
HELLO: list[LLMMessage] = [SystemMessage(content="be kind"), UserMessage(content="hello", source="ada")]
LOOK_UP = {
    "name": "look_up",
    "description": "Looks up the weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
OTHER = {**LOOK_UP, "name": "other"}
STORY = "Once upon a time there was a bell that nobody rang."
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 20)

Ask: TypeAlias = Callable[..., Any]


class Weather(BaseModel):
    city: str
    degrees: int


@pytest.fixture(scope="module")
def running_server() -> Iterator[OpenAIServer]:
    with OpenAIServer(paths=ANYWHERE) as running:
        yield running


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Dialect:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    found: Dialect = request.param
    return found


class Place:
    """A server of a dialect, and clients of it."""

    def __init__(self, dialect: Dialect, server: OpenAIServer) -> None:
        self.dialect = dialect
        self.server = server
        self.clients: list[ChatCompletionClient] = []

    def client(self, *script: Said | Failure | Script | Behaviour, **options: Any) -> ChatCompletionClient:
        for one in script:
            if isinstance(one, Said):
                self.server.script(Script(self.dialect, one))
            else:
                self.server.script(Script(self.dialect, failure=one) if isinstance(one, Failure) else one)
        client = self.dialect.client(self.server.root, **{"max_retries": 0, **options})
        self.clients.append(client)
        return client

    @property
    def request(self) -> Any:
        """The last request, read."""
        return self.dialect.read(self.server.last)


@pytest.fixture
async def place(dialect: Dialect, running_server: OpenAIServer) -> AsyncIterator[Place]:
    made = Place(dialect, running_server)
    yield made
    for client in made.clients:
        await client.close()
    running_server.reset()


async def whole(client: ChatCompletionClient, messages: list[LLMMessage], **options: Any) -> CreateResult:
    return await client.create(messages, **options)


async def streamed(client: ChatCompletionClient, messages: list[LLMMessage], **options: Any) -> CreateResult:
    *pieces, last = [item async for item in client.create_stream(messages, **options)]
    assert isinstance(last, CreateResult)
    if isinstance(last.content, str):
        shown = "".join(str(piece) for piece in pieces)
        assert shown.rpartition("</think>")[2] == last.content
    return last


both = pytest.mark.parametrize("ask", [whole, streamed], ids=["whole", "streamed"])


@both
async def test_a_text_with_its_usage(place: Place, ask: Ask) -> None:
    client = place.client(Said(text="Ahoy there!", read=40, written=9, cached=16, reasoning=4))
    answer = await ask(client, HELLO)
    cached, reasoning = 16 * place.dialect.counts_cached, 4 * place.dialect.counts_reasoning
    assert (answer.content, answer.finish_reason) == ("Ahoy there!", "stop")
    assert answer.usage == client.actual_usage() == RequestUsage(40, 9, cached, reasoning)
    assert [(turn.role, turn.text) for turn in place.request.turns] == [
        ("system", "be kind"),
        ("user", "hello"),
    ]
    assert answer.vendor is None


@both
async def test_reasoning_is_the_thought(place: Place, ask: Ask) -> None:
    answer = await ask(place.client(Said(thought="a greeting, I think", text="Ahoy!")), HELLO)
    assert (answer.thought, answer.content) == ("a greeting, I think", "Ahoy!")


@both
async def test_a_tool_loop_with_two_calls_and_what_the_maker_wants_back(place: Place, ask: Ask) -> None:
    calls = [Call("look_up", {"city": "Oslo"}, "call_1"), Call("look_up", {"city": "Rome"}, "call_2")]
    called = Said(thought="I have to look", text="I look.", calls=calls)
    client = place.client(called, Said(text="Cold."))
    asked = await ask(client, HELLO, tools=[LOOK_UP])
    assert asked.finish_reason == "function_calls"
    assert [json.loads(call.arguments) for call in asked.content] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert place.request.tools == ["look_up"]
    # As a process does that takes the conversation over.
    stored = AssistantMessage(content=asked.content, thought=asked.thought, source="b", vendor=asked.vendor)
    follow_up = [*HELLO, AssistantMessage.model_validate_json(stored.model_dump_json()), _results(asked)]
    assert (await ask(client, follow_up, tools=[LOOK_UP])).content == "Cold."
    spoken = [turn for turn in place.request.turns if turn.role in ("assistant", "tool")]
    ids = [call.id for call in asked.content]
    assert list(spoken[0].calls) == ids
    assert [(turn.call, turn.text) for turn in spoken[1:]] == [
        (ids[0], "3 degrees"),
        (ids[1], "no such city"),
    ]
    assert spoken[0].is_signed == place.dialect.signs
    assert spoken[2].is_error == place.dialect.has_errors


def _results(asked: CreateResult) -> FunctionExecutionResultMessage:
    assert isinstance(asked.content, list)
    first, second = asked.content
    return FunctionExecutionResultMessage(
        content=[
            FunctionExecutionResult(call_id=first.id, name=first.name, content="3 degrees", is_error=False),
            FunctionExecutionResult(
                call_id=second.id, name=second.name, content="no such city", is_error=True
            ),
        ]
    )


async def test_what_a_maker_put_beside_goes_to_no_other_model(place: Place) -> None:
    calls = [Call("look_up", {"city": "Oslo"})]
    client = place.client(Said(thought="a secret", calls=calls), Said(text="Cold."))
    asked = await whole(client, HELLO, tools=[LOOK_UP])
    assert isinstance(asked.content, list)
    vendor = asked.vendor and asked.vendor.model_copy(update={"maker": "https://elsewhere another"})
    done = FunctionExecutionResult(call_id=asked.content[0].id, name="look_up", content="3", is_error=False)
    messages: list[LLMMessage] = [
        *HELLO,
        AssistantMessage(content=asked.content, source="b", vendor=vendor),
        FunctionExecutionResultMessage(content=[done]),
    ]
    assert (await whole(client, messages, tools=[LOOK_UP])).content == "Cold."
    assert not any(turn.is_signed for turn in place.request.turns)
    assert "a secret" not in json.dumps(place.server.last.body)


async def test_calls_that_an_agent_has_changed_are_sent_as_it_has_them(place: Place) -> None:
    calls = [Call("look_up", {"city": "Oslo"}, "call_1"), Call("look_up", {"city": "Rome"}, "call_2")]
    client = place.client(Said(thought="hm", calls=calls), Said(text="Cold."))
    asked = await whole(client, HELLO, tools=[LOOK_UP])
    assert isinstance(asked.content, list)
    first = asked.content[0]
    done = FunctionExecutionResult(call_id=first.id, name="look_up", content="3", is_error=False)
    messages: list[LLMMessage] = [
        *HELLO,
        AssistantMessage(content=[first], source="b", vendor=asked.vendor),
        FunctionExecutionResultMessage(content=[done]),
    ]
    assert (await whole(client, messages, tools=[LOOK_UP])).content == "Cold."
    assert list(place.request.of("assistant")[0].calls) == [first.id]


@both
async def test_an_answer_that_was_cut_off(place: Place, ask: Ask) -> None:
    client = place.client(Said(text="Once upon", ending="length"), max_tokens=2)
    answer = await ask(client, HELLO)
    assert (answer.content, answer.finish_reason) == ("Once upon", "length")
    assert place.request.limit == client.max_completion_tokens == 2


@both
async def test_a_refusal(place: Place, ask: Ask) -> None:
    if not place.dialect.has_refusals:
        return
    answer = await ask(place.client(Said(text="I had better", ending="refused")), HELLO)
    assert (answer.content, answer.finish_reason) == ("I had better", "content_filter")


async def test_a_class_is_answered_by_an_object_of_it_and_asked_for_again_where_it_is_not(
    place: Place,
) -> None:
    client = place.client(
        Said(text='{"city": "Oslo"}', read=30, written=6),
        Said(text='{"city": "Oslo", "degrees": 3}', read=50, written=9),
    )
    answer = await whole(client, HELLO, json_output=Weather)
    assert Weather.model_validate_json(str(answer.content)) == Weather(city="Oslo", degrees=3)
    assert (answer.requests, answer.usage) == (2, RequestUsage(80, 15))
    assert "degrees" in json.dumps(place.server.requests[0].body)
    *_, said, objection = place.request.turns
    assert (said.role, objection.role) == ("assistant", "user")
    assert "degrees: Field required" in objection.text


async def test_any_json_object(place: Place) -> None:
    client = place.client(Said(text='{"a": 1}'))
    assert json.loads(str((await whole(client, HELLO, json_output=True)).content)) == {"a": 1}
    client = place.client(Said(text="no"), max_corrections=0)
    with pytest.raises(BadResponseError, match="the answer is no JSON"):
        await whole(client, HELLO, json_output=True)


async def test_the_choice_of_a_tool(place: Place) -> None:
    calls = [Call("other", {"city": "Oslo"})]
    client = place.client(Said(calls=calls), Said(text="No."))
    answer = await whole(client, HELLO, tools=[LOOK_UP, OTHER], tool_choice=_tool(OTHER))
    assert isinstance(answer.content, list)
    assert answer.content[0].name == "other"
    assert "other" in json.dumps(place.request.choice) or place.request.tools == ["other"]
    await whole(client, HELLO, tools=[LOOK_UP], tool_choice="none")
    assert "none" in json.dumps(place.request.choice).lower() or place.request.tools == []


def _tool(schema: dict[str, Any]) -> Any:
    class Offered:
        name = schema["name"]

    offered = Offered()
    setattr(offered, "schema", schema)  # noqa: B010
    return offered


async def test_images_as_their_bytes(place: Place) -> None:
    await whole(place.client(Said(text="A bell.")), [UserMessage(content=["What?", PICTURE], source="ada")])
    assert [(turn.text, turn.images) for turn in place.request.of("user")] == [("What?", 1)]


async def test_images_that_an_address_names_are_not_fetched_here(place: Place) -> None:
    picture = Image.from_uri(f"{place.server.root}/inside.png")
    asking = whole(
        place.client(Said(text="A bell.")), [UserMessage(content=["What?", picture], source="ada")]
    )
    if place.dialect.takes_addresses:
        await asking
        assert "inside.png" in json.dumps(place.server.last.body)
    else:
        with pytest.raises(BadRequestError, match="takes images as their bytes"):
            await asking
    assert not [asked for asked in place.server.requests if asked.path == "/inside.png"]


async def test_a_request_never_ends_with_the_models_own_words_nor_has_empty_ones(place: Place) -> None:
    client = place.client(Said(text="And on."))
    spoken = AssistantMessage(content="So it begins. ", source="bot")
    empty = AssistantMessage(content="", source="bot")
    answer = await whole(client, [*HELLO, empty, UserMessage(content=" ", source="ada"), spoken])
    assert answer.content == "And on."
    assert place.request.turns[-1].role == "user"


async def test_system_messages_in_the_middle(place: Place) -> None:
    late = SystemMessage(content="memory: Ada likes bells")
    await whole(place.client(Said(text="Ding.")), [*HELLO, late])
    turns = place.request.turns
    assert turns[0].text == "be kind"
    assert "likes bells" in turns[-1].text


FAILURES: Final[list[tuple[Kind, type[ModelError]]]] = [
    ("rate", RateLimitError),
    ("overloaded", ModelOverloadedError),
    ("server", ModelOverloadedError),
    ("key", AuthenticationError),
    ("model", ModelNotFoundError),
    ("long", ContextLengthError),
    ("money", QuotaExceededError),
    ("request", BadRequestError),
]


@both
@pytest.mark.parametrize(("kind", "error"), FAILURES, ids=[kind for kind, _ in FAILURES])
async def test_failures(place: Place, ask: Ask, kind: Kind, error: type[ModelError]) -> None:
    if kind == "money" and place.dialect.name == "Ollama":
        return
    client = place.client(Failure(kind))
    with pytest.raises(error) as caught:
        await ask(client, HELLO)
    assert type(caught.value) is error
    assert caught.value.status == place.dialect.failure(Failure(kind))[0]
    assert len(place.server.requests) == 1
    assert "secret" not in str(caught.value)
    assert (REQUEST_ID in caught.value.reason) == bool(place.dialect.number)
    assert client.actual_usage().total_tokens == 0


@both
async def test_a_rate_limit_is_waited_for_as_the_maker_asks(place: Place, ask: Ask) -> None:
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    retries = ModelRetries(sleep=pause, random=lambda: 0.0)
    client = place.client(
        Failure("rate", 7), Failure("overloaded"), Said(text="At last."), retries=retries, max_retries=2
    )
    assert (await ask(client, HELLO)).content == "At last."
    assert len(place.server.requests) == 3
    assert waited[0] >= 7.0


@both
async def test_no_answer_in_time(place: Place, ask: Ask) -> None:
    client = place.client(Slow(), timeout=0.3)
    with pytest.raises(ModelTimeoutError) as caught:
        await ask(client, HELLO)
    assert caught.value.usage.prompt_tokens > 0
    assert caught.value.is_outage


async def test_no_server(place: Place) -> None:
    nowhere = place.dialect.client("http://127.0.0.1:9", max_retries=0)
    place.clients.append(nowhere)
    with pytest.raises(ModelConnectionError, match=r"127\.0\.0\.1:9.*: .*[Cc]onnect.* failed") as caught:
        await whole(nowhere, HELLO)
    assert ".." not in str(caught.value)
    assert caught.value.usage.total_tokens == 0


@pytest.mark.parametrize("way", ["breaks_after", "ends_after"])
async def test_a_stream_that_breaks_off(place: Place, way: str) -> None:
    said = Said(text=STORY, read=40, written=20)
    at: Any = {way: 7}
    client = place.client(Script(place.dialect, said, **at))
    heard: list[str] = []

    async def listen() -> None:
        async for item in client.create_stream(HELLO):
            heard.append(str(item))  # noqa: PERF401 - also what came before it broke

    with pytest.raises(ModelConnectionError) as caught:
        await listen()
    assert said.text.startswith("".join(heard))
    assert len(heard) >= 2
    assert 0 < caught.value.usage.completion_tokens < 20
    assert client.actual_usage() == caught.value.usage


async def test_a_stream_that_reports_an_error(place: Place) -> None:
    if not place.dialect.within:
        return
    script = Script(place.dialect, Said(text=STORY), Failure("overloaded"), fails_after=5)
    with pytest.raises(ModelOverloadedError):
        await streamed(place.client(script), HELLO)


@both
async def test_a_cancelled_request(place: Place, ask: Ask) -> None:
    client, token = place.client(Slow()), CancellationToken()
    asking = asyncio.ensure_future(ask(client, HELLO, cancellation_token=token))
    while not place.server.requests:  # noqa: ASYNC110 - of a server in another thread
        await asyncio.sleep(0.01)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(place.server.hung_up.wait, 5)


async def test_a_stream_that_is_left_ends_the_request(place: Place) -> None:
    script = Slow(Script(place.dialect, Said(text=STORY)), events=7)
    client = place.client(script)
    stream = client.create_stream(HELLO)
    assert isinstance(await anext(stream), str)
    await stream.aclose()
    assert await asyncio.to_thread(place.server.hung_up.wait, 5)


@both
@pytest.mark.parametrize(
    "raw",
    [
        Raw("<html>Not yet</html>", 200, "text/html"),
        Raw("<html>Bad gateway</html>", 502, "text/html"),
        Raw("[]"),
        Raw('{"hello": 1}'),
        Raw("", 204),
    ],
    ids=["page", "proxy", "list", "other", "nothing"],
)
async def test_what_is_no_answer(place: Place, ask: Ask, raw: Raw) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(place.client(raw), HELLO)
    assert isinstance(caught.value, BadResponseError | ModelOverloadedError | ModelConnectionError)
    assert caught.value.is_outage or raw.status != 502
    assert "<html>" not in str(caught.value)


async def test_an_argument_that_there_is_not(place: Place) -> None:
    client = place.client(Said(text="x"))
    with pytest.raises(BadRequestError, match="temprature"):
        await whole(client, HELLO, extra_create_args={"temprature": 1})
    assert not place.server.requests


async def test_several_loops_one_after_the_other(place: Place) -> None:
    client = place.client(Said(text="one"), Said(text="two"))

    def ask_in_a_loop_of_its_own() -> str:
        return str(run_in_loop(whole(client, HELLO)).content)

    assert await asyncio.to_thread(ask_in_a_loop_of_its_own) == "one"
    assert await asyncio.to_thread(ask_in_a_loop_of_its_own) == "two"


async def test_a_dump_has_no_key_and_goes_to_no_strange_server(place: Place) -> None:
    client = place.client(Said(text="x"))
    dump = client.dump_component()
    assert "secret" not in dump.model_dump_json()
    with pytest.raises(ValueError, match=r"127\.0\.0\.1"):
        ChatCompletionClient.load_component(dump)
    loaded = ChatCompletionClient.load_component(dump, hosts=["127.0.0.1"])
    assert type(loaded) is type(client)
    assert loaded.fingerprint() == client.fingerprint()
    await loaded.close()


async def test_a_call_that_was_cut_off_is_the_agents_to_answer(place: Place) -> None:
    if not place.dialect.writes_arguments:
        return
    cut = Said(thought="hm", calls=[Call("look_up", {}, written='{"city": "Os')], ending="length")
    client = place.client(cut, Said(text="Sorry."))
    asked = await streamed(client, HELLO, tools=[LOOK_UP])
    assert isinstance(asked.content, list)
    assert [(call.name, call.arguments) for call in asked.content] == [("look_up", '{"city": "Os')]
    done = FunctionExecutionResult(call_id=asked.content[0].id, name="look_up", content="cut", is_error=True)
    messages: list[LLMMessage] = [
        *HELLO,
        AssistantMessage(content=asked.content, thought=asked.thought, source="b", vendor=asked.vendor),
        FunctionExecutionResultMessage(content=[done]),
    ]
    assert (await whole(client, messages, tools=[LOOK_UP])).content == "Sorry."


async def test_calls_without_an_object_as_arguments_can_be_sent_back(place: Place) -> None:
    wrong = FunctionCall(id="call_1", name="look_up", arguments="{city: Oslo")
    done = FunctionExecutionResult(call_id="call_1", name="look_up", content="no JSON", is_error=True)
    messages: list[LLMMessage] = [
        *HELLO,
        AssistantMessage(content=[wrong], source="b"),
        FunctionExecutionResultMessage(content=[done]),
    ]
    assert (await whole(place.client(Said(text="Sorry.")), messages, tools=[LOOK_UP])).content == "Sorry."
