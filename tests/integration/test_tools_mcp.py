"""Tools of a real MCP server, over stdio and streamable HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from callboard import CancellationToken
from callboard.memory.llm_messages import FunctionCall
from callboard.tools import (
    ImageResultContent,
    McpWorkbench,
    StdioServerParams,
    StreamableHttpServerParams,
    ToolOverride,
)
from callboard.tools.errors import ToolConnectionError
from tests.helpers.eventually import eventually
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.schemas import parameters

MODULE = "tests.helpers.mcp_tools"
CONNECT = 60.0  # seconds: importing mcp takes long on a machine that does other things


def stdio(**options: float) -> StdioServerParams:
    return StdioServerParams(
        command=sys.executable,
        args=["-m", MODULE],
        cwd=str(ROOT),
        read_timeout_seconds=options.get("limit", 30.0),
    )


@pytest.fixture
def http_server() -> Iterator[tuple[Process, int]]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process = Process(python("-m", MODULE, str(port)))
    yield process, port
    process.close()


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.fixture(params=["stdio", "http"])
async def workbench(request: pytest.FixtureRequest) -> AsyncIterator[McpWorkbench]:
    if request.param == "stdio":
        async with McpWorkbench(stdio(), connect_timeout=CONNECT) as started:
            yield started
        return
    _, port = request.getfixturevalue("http_server")
    await eventually(lambda: listens(port), CONNECT)
    params = StreamableHttpServerParams(url=f"http://127.0.0.1:{port}/mcp")
    async with McpWorkbench(params, connect_timeout=CONNECT) as started:
        yield started


async def test_tools_are_listed_and_called(workbench: McpWorkbench, tmp_path: Path) -> None:
    schemas = {schema["name"]: schema for schema in await workbench.list_tools()}
    assert schemas["add"].get("description") == "Adds two numbers."
    assert parameters(schemas["add"]).get("required") == ["a", "b"]
    assert (await workbench.call_tool("add", {"a": 1, "b": 2})).to_text() == "3"
    (part,) = (await workbench.call_tool("picture")).result
    assert isinstance(part, ImageResultContent)
    assert part.content.mime_type == "image/png"

    large = await workbench.call_tool("large")
    assert large.to_text().endswith("xxx... [cut here: 1,950,100 of 2,000,000 characters are missing]")
    as_asked = await workbench.call_tool(FunctionCall(id="c", name="add", arguments='{"a": 1, "b": 4}'))
    assert as_asked.to_text() == "5"
    broken = await workbench.call_tool(FunctionCall(id="c", name="add", arguments='{"a": 1'))
    assert (broken.name, "not valid JSON" in broken.to_text()) == ("add", True)

    failed = await workbench.call_tool("fail")
    assert (failed.is_error, failed.name) == (True, "fail")
    misfit = await workbench.call_tool("add", {"a": "x"})
    assert misfit.is_error
    assert "Field required" in misfit.to_text()
    no_object = await workbench.call_tool("add", [1])  # type: ignore[arg-type]
    assert "one JSON object" in no_object.to_text()
    unknown = await workbench.call_tool("ad")
    assert unknown.to_text() == "Tool ad not found. Did you mean 'add'?"

    token, file = CancellationToken(), tmp_path / "cancelled"
    calling = asyncio.ensure_future(workbench.call_tool("wait", {"seconds": 60, "file": str(file)}, token))
    await asyncio.sleep(0.3)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await eventually(file.exists, what="the server was told of it")
    assert (await workbench.call_tool("add", {"a": 2, "b": 2})).to_text() == "4"
    await workbench.load_state(await workbench.save_state())


async def test_a_server_that_dies_is_started_again(tmp_path: Path) -> None:
    async with McpWorkbench(stdio(), connect_timeout=CONNECT) as workbench:
        lost = await workbench.call_tool("exit")
        assert lost.is_error
        assert "may or may not have done its work" in lost.to_text()
        assert (await workbench.call_tool("add", {"a": 1, "b": 2})).to_text() == "3"
        again = await workbench.call_tool("exit_once", {"file": str(tmp_path / "once")})
        assert again.to_text() == "back again"


async def test_no_process_is_left_when_the_workbench_stops() -> None:
    me = psutil.Process()
    before = {child.pid for child in me.children()}
    workbench = McpWorkbench(stdio(limit=0.5), connect_timeout=CONNECT)
    await workbench.list_tools()
    assert {child.pid for child in me.children()} - before
    slow = await workbench.call_tool("wait", {"seconds": 60})
    assert "did not end within 0.5 s" in slow.to_text()
    await workbench.stop()
    await workbench.stop()
    assert not {child.pid for child in me.children()} - before


async def test_names_and_descriptions_are_overridden() -> None:
    overrides = {"add": ToolOverride(name="plus", description="Plus.")}
    async with McpWorkbench(stdio(), overrides, connect_timeout=CONNECT) as workbench:
        names = {schema["name"]: schema.get("description") for schema in await workbench.list_tools()}
        assert names["plus"] == "Plus."
        assert "add" not in names
        result = await workbench.call_tool("plus", {"a": 1, "b": 1})
        assert (result.name, result.to_text()) == ("plus", "2")
        await workbench.reset()
        assert (await workbench.call_tool("plus", {"a": 1, "b": 2})).to_text() == "3"


async def test_a_server_that_comes_back_under_its_address(http_server: tuple[Process, int]) -> None:
    process, port = http_server
    await eventually(lambda: listens(port), CONNECT)
    params = StreamableHttpServerParams(url=f"http://127.0.0.1:{port}/mcp", timeout=10)
    async with McpWorkbench(params, connect_timeout=CONNECT) as workbench:
        assert not (await workbench.call_tool("add", {"a": 1, "b": 2})).is_error
        process.kill()
        gone = await workbench.call_tool("add", {"a": 1, "b": 2})
        assert gone.is_error
        second = Process(python("-m", MODULE, str(port)))
        try:
            await eventually(lambda: listens(port), CONNECT)
            await eventually(lambda: _works(workbench))
        finally:
            second.close()


async def _works(workbench: McpWorkbench) -> bool:
    return (await workbench.call_tool("add", {"a": 1, "b": 2})).to_text() == "3"


@pytest.mark.parametrize(
    "params",
    [
        StdioServerParams(command="no-such-program-anywhere"),
        StdioServerParams(command=sys.executable, args=["-c", "pass"]),
        StreamableHttpServerParams(url="http://127.0.0.1:9/mcp?key=secret"),
    ],
    ids=["no program", "ends at once", "nobody listens"],
)
async def test_a_server_that_can_not_be_reached(
    params: StdioServerParams | StreamableHttpServerParams,
) -> None:
    workbench = McpWorkbench(params, connect_timeout=CONNECT)
    with pytest.raises(ToolConnectionError, match="can't be reached") as caught:
        await workbench.list_tools()
    assert "secret" not in str(caught.value)
    result = await workbench.call_tool("add", {})
    assert (result.is_error, result.to_text()) == (True, str(caught.value))
    await workbench.stop()


async def test_a_server_that_never_answers() -> None:
    params = StdioServerParams(command=sys.executable, args=["-c", "import time; time.sleep(60)"])
    with pytest.raises(ToolConnectionError, match="no answer within 1 s"):
        await McpWorkbench(params, connect_timeout=1.0).start()


async def test_a_server_that_dies_at_start_says_why() -> None:
    code = "import sys; print('x' * 9000, file=sys.stderr); sys.exit('no licence key in LICENCE')"
    params = StdioServerParams(command=sys.executable, args=["-c", code])
    with pytest.raises(ToolConnectionError) as caught:
        await McpWorkbench(params, connect_timeout=CONNECT).start()
    assert caught.value.exit_status == 1
    assert "its process ended with status 1; it said:\nxxx" in str(caught.value)
    assert str(caught.value).endswith("xxx\nno licence key in LICENCE")
    assert len(str(caught.value)) < 3_000


async def test_a_server_that_does_not_answer_has_its_last_words_shown() -> None:
    code = "import sys, time; print('waiting for a database', file=sys.stderr, flush=True); time.sleep(600)"
    params = StdioServerParams(command=sys.executable, args=["-c", code])
    with pytest.raises(ToolConnectionError, match=r"(?s)no answer within 1 s.*waiting for a database"):
        await McpWorkbench(params, connect_timeout=1.0).start()
