"""Tools and workbenches as plain data and back."""

from __future__ import annotations

import os
import ssl
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import CancellationToken, ComponentModel
from callboard.foundation.component import (
    ComponentConfigError,
    ComponentLoader,
    ComponentNotAllowedError,
    ComponentTypeError,
    NotDumpableError,
)
from callboard.memory.llm_messages import FunctionCall
from callboard.tools import (
    BaseTool,
    FunctionTool,
    HttpLimits,
    HttpTool,
    McpWorkbench,
    ResultLimits,
    StaticStreamWorkbench,
    StaticWorkbench,
    StdioServerParams,
    StreamableHttpServerParams,
    ToolOverride,
    Workbench,
)
from callboard.tools.errors import ToolDeclarationError

HERE = __name__
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "default": None}}}


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def again(part: BaseTool[Any, Any] | Workbench, **allowed: Any) -> Any:
    """What a dump becomes after it was JSON."""
    text = part.dump_component().model_dump_json()
    return ComponentLoader.load_component(ComponentModel.model_validate_json(text), type(part), **allowed)


class TestFunctions:
    async def test_a_function_comes_back_from_a_module_that_is_allowed(self) -> None:
        tool = FunctionTool(double, "Doubles.", "twice", strict=True, timeout=3)
        dump = tool.dump_component()
        assert (dump.provider, dump.component_type) == ("callboard.tools.FunctionTool", "tool")
        assert dump.config["function"] == f"{HERE}:double"
        loaded = again(tool, modules=[HERE])
        assert loaded.schema == tool.schema
        assert loaded.timeout == 3
        assert await loaded.run_json({"number": 2}, CancellationToken()) == 4

    @pytest.mark.parametrize("modules", [[], ["other"], [f"{HERE}.deeper"]])
    def test_from_no_other(self, modules: list[str]) -> None:
        with pytest.raises(ComponentNotAllowedError, match=r"importing the function .*:double .* modules="):
            again(FunctionTool(double), modules=modules)

    @pytest.mark.parametrize("name", ["os.system", "os.path.join", "pytest.raises"])
    def test_what_a_module_imports_is_not_its_own(self, name: str) -> None:
        assert os.path is not None
        config = {"function": f"{HERE}:{name}", "name": "f", "description": ""}
        with pytest.raises(ToolDeclarationError, match="none of those allowed"):
            FunctionTool.load_component(
                {"provider": "callboard.tools.FunctionTool", "config": config}, modules=[HERE]
            )

    def test_source_code_of_autogen_is_refused(self) -> None:
        config = {
            "source_code": "def f() -> str:\n    return 'a'\n",
            "name": "f",
            "description": "d",
            "global_imports": [],
            "has_cancellation_support": False,
        }
        dump = {"provider": "autogen_core.tools.FunctionTool", "component_type": "tool", "config": config}
        with pytest.raises(ComponentConfigError, match=r"never executed here.*'module:name'"):
            BaseTool.load_component(dump)

    def test_a_function_without_a_place_is_refused(self) -> None:
        with pytest.raises(NotDumpableError, match="top level of a module"):
            FunctionTool(lambda: 1, name="odd").dump_component()


class TestHttp:
    def tool(self, **options: Any) -> HttpTool:
        return HttpTool("search", "example.org", 443, SCHEMA, scheme="https", **options)

    def test_it_comes_back_without_secrets(self) -> None:
        tool = self.tool(
            headers={"Authorization": "s3cret", "Accept-Language": "de"},
            path="/find?token=s3cret",
            limits=HttpLimits(allowed_hosts=["*.example.org"], max_bytes=9),
            query_params=["a"],
        )
        dump = tool.dump_component()
        assert "s3cret" not in dump.model_dump_json()
        assert dump.provider == "callboard.tools.HttpTool"
        loaded = again(tool)
        assert loaded.schema == tool.schema
        assert loaded.to_config().headers == {"Accept-Language": "de"}
        assert loaded.to_config().limits == tool.to_config().limits

    def test_autogens_is_read(self) -> None:
        config = {
            "name": "h",
            "description": "d",
            "scheme": "http",
            "host": "example.org",
            "port": 80,
            "path": "/",
            "method": "POST",
            "headers": {"Authorization": "theirs"},
            "json_schema": SCHEMA,
            "return_type": "text",
            "timeout": 5.0,
        }
        loaded: Any = BaseTool.load_component(
            {"provider": "autogen_ext.tools.http.HttpTool", "config": config}
        )
        assert loaded.to_config().headers == {"Authorization": "theirs"}

    @pytest.mark.parametrize("hosts", [[], ["example.org"], ["inside.example.org"]])
    def test_a_config_alone_opens_no_private_network(self, hosts: list[str]) -> None:
        limits = HttpLimits(allow_private=True, allowed_hosts=["inside.example.org"])
        with pytest.raises(ComponentNotAllowedError, match="private addresses"):
            again(self.tool(limits=limits), hosts=hosts)
        loaded = again(self.tool(limits=limits), hosts=["example.org", "inside.example.org"])
        assert loaded.to_config().limits == limits

    def test_a_context_of_ssl_is_refused(self) -> None:
        with pytest.raises(NotDumpableError, match="ssl_context"):
            self.tool(ssl_context=ssl.create_default_context()).dump_component()


class Nothing(BaseTool[BaseModel, str]):
    def __init__(self) -> None:
        super().__init__(BaseModel, str, "nothing", "Does nothing.")

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> str:
        return ""


class TestStatic:
    @pytest.mark.parametrize("kind", [StaticWorkbench, StaticStreamWorkbench])
    async def test_it_comes_back_with_its_tools(self, kind: type[StaticWorkbench]) -> None:
        overrides = {"double": ToolOverride(name="twice")}
        limits = ResultLimits(max_text=300, max_image=0)
        bench = kind([FunctionTool(double)], overrides, timeout=3, limits=limits)
        assert bench.dump_component().provider == f"callboard.tools.{kind.__name__}"
        loaded = again(bench, modules=[HERE])
        assert type(loaded) is kind
        assert await loaded.list_tools() == await bench.list_tools()
        assert loaded.dump_component() == bench.dump_component()
        call = FunctionCall(id="1", name="twice", arguments='{"number": 2}')
        assert (await loaded.call_tool(call)).to_text() == "4"

    async def test_tools_that_run_elsewhere_come_back_so(self) -> None:
        bench = StaticWorkbench([FunctionTool(double)], on="tools")
        loaded = again(bench, modules=[HERE])
        assert loaded.dump_component().config["on"] == "tools"
        assert await loaded.list_tools() == await bench.list_tools()

    def test_a_tool_that_is_no_component_is_refused(self) -> None:
        with pytest.raises(NotDumpableError, match="its Nothing is no component"):
            StaticWorkbench([Nothing()]).dump_component()

    def test_what_is_no_tool_is_refused(self) -> None:
        dump = {
            "provider": "autogen_core.tools.StaticWorkbench",
            "config": {"tools": [{"provider": "callboard.InMemoryStore", "config": {}}]},
        }
        with pytest.raises(ComponentTypeError, match="no Tool"):
            Workbench.load_component(dump)


class TestMcp:
    def test_a_program_comes_back_when_it_is_allowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        params = StdioServerParams(
            command="server", args=["--quiet"], env={"API_TOKEN": "s3cret", "LANG": "de"}, cwd="/a"
        )
        bench = McpWorkbench(params, {"a": ToolOverride(name="b")}, connect_timeout=3)
        dump = bench.dump_component()
        assert "s3cret" not in dump.model_dump_json()
        assert dump.provider == "callboard.tools.McpWorkbench"
        with pytest.raises(ComponentNotAllowedError, match=r"starting the program server .* commands="):
            again(bench)
        monkeypatch.delenv("API_TOKEN", raising=False)
        assert again(bench, commands=["server"]).server_params.env == {"LANG": "de"}
        monkeypatch.setenv("API_TOKEN", "of-the-environment")
        loaded = again(bench, commands=["server"])
        assert loaded.server_params == params.model_copy(
            update={"env": {"API_TOKEN": "of-the-environment", "LANG": "de"}}
        )
        assert loaded.dump_component() == dump

    @pytest.mark.parametrize("argument", ["--api-key", "--token=s3cret"])
    def test_a_secret_among_the_arguments_is_refused(self, argument: str) -> None:
        params = StdioServerParams(command="server", args=[argument, "s3cret"])
        with pytest.raises(NotDumpableError, match="give it to the server in env") as error:
            McpWorkbench(params).dump_component()
        assert "s3cret" not in str(error.value)

    def test_an_address_comes_back_without_secrets(self) -> None:
        params = StreamableHttpServerParams(
            url="https://u:s3cret@example.org/mcp?key=s3cret", headers={"Authorization": "s3cret"}, timeout=3
        )
        loaded = again(McpWorkbench(params))
        assert loaded.server_params == StreamableHttpServerParams(
            url="https://example.org/mcp?key=", timeout=3
        )

    def test_autogens_is_read(self) -> None:
        server = {"type": "StdioServerParams", "command": "a", "args": [], "read_timeout_seconds": 5}
        dump = {
            "provider": "autogen_ext.tools.mcp.McpWorkbench",
            "config": {"server_params": server, "tool_overrides": {}},
        }
        loaded: Any = Workbench.load_component(dump, commands=["a"])
        assert loaded.server_params == StdioServerParams(command="a", args=[], read_timeout_seconds=5)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"model_client": {"provider": "a", "config": {}}}, "can't ask a model"),
            ({"server_params": {"type": "SseServerParams", "url": "http://a"}}, "SseServerParams"),
        ],
    )
    def test_what_we_do_not_have_is_refused(self, change: dict[str, Any], problem: str) -> None:
        server = {"type": "StreamableHttpServerParams", "url": "http://a"}
        dump = {
            "provider": "autogen_ext.tools.mcp.McpWorkbench",
            "config": {"server_params": server, **change},
        }
        with pytest.raises(ComponentConfigError, match=problem):
            Workbench.load_component(dump)
