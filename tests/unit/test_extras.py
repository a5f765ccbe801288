"""What needs an extra that is not installed says so in one sentence, without a chain of tracebacks."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import tomllib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from callboard.foundation import MissingPackageError

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


async def run_in_memory(folder: Path) -> None:
    from callboard import App

    async with App("a").running(url="memory://a"):
        pass


async def import_fixtures(folder: Path) -> None:
    sys.modules.pop("callboard.testing.fixtures", None)
    importlib.import_module("callboard.testing.fixtures")


async def ask_openai(folder: Path) -> None:
    from callboard.models.openai import OpenAIChatCompletionClient

    OpenAIChatCompletionClient("gpt-4o", base_url="http://127.0.0.1:9", api_key="k")


async def ask_anthropic(folder: Path) -> None:
    from callboard.models.anthropic import AnthropicChatCompletionClient

    AnthropicChatCompletionClient("claude-sonnet-4-6", base_url="http://127.0.0.1:9", api_key="k")


async def open_chroma(folder: Path) -> None:
    from callboard.memory import ChromaDBVectorMemory, HashingEmbedder, PersistentChromaDBVectorMemoryConfig

    config = PersistentChromaDBVectorMemoryConfig(persistence_path=str(folder))
    await ChromaDBVectorMemory(config, HashingEmbedder()).query("a")


async def call_mcp(folder: Path) -> None:
    from callboard.tools import McpWorkbench, StdioServerParams

    await McpWorkbench(StdioServerParams(command="none")).start()


async def ask_elsewhere(folder: Path) -> None:
    from callboard.agents import A2AAgent

    await A2AAgent("there", "http://127.0.0.1:1").run(task="Hello.")


async def host_autogen(folder: Path) -> None:
    sys.modules.pop("callboard.interop.translation", None)
    importlib.import_module("callboard.interop.translation")


async def count_for_prometheus(folder: Path) -> None:
    from callboard.process.metrics import WorkerMetrics

    WorkerMetrics("shop")


async def send_a_webhook(folder: Path) -> None:
    from callboard.hooks import new_secret
    from callboard.hooks.outgoing import Webhook

    hook = Webhook("a", "https://a.example/", new_secret(), frozenset(), "", False, 1.0)
    await anext(hook.opened())


CASES: list[tuple[str, str, Callable[[Path], Coroutine[Any, Any, None]]]] = [
    ("testing", "fakeredis", run_in_memory),
    ("testing", "pytest_asyncio", import_fixtures),
    ("openai", "openai", ask_openai),
    ("providers", "pydantic_ai", ask_anthropic),
    ("memory", "chromadb", open_chroma),
    ("mcp", "mcp", call_mcp),
    ("a2a", "a2a", ask_elsewhere),
    ("http", "httpx2", send_a_webhook),
    ("metrics", "prometheus_client", count_for_prometheus),
    ("autogen", "autogen_core", host_autogen),
]


@pytest.mark.parametrize(("extra", "module", "use"), CASES)
def test_a_missing_extra_is_named(
    extra: str,
    module: str,
    use: Callable[[Path], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        MissingPackageError, match=rf"^\w+ is not installed: .*'callboard\[{extra}\]'"
    ) as caught:
        asyncio.run(use(tmp_path))
    assert caught.value.__suppress_context__, "the sentence is all that is to be read"
    assert caught.value.__cause__ is None
    assert any(text.startswith(module.replace("_", "-")) for text in EXTRAS[extra])


def test_on_the_command_line_it_is_one_line(tmp_path: Path) -> None:
    code = "import sys; sys.modules['chromadb'] = None; from callboard.cli import main; main()"
    folder = ("--path", str(tmp_path), "--model", "hashing")
    command = [sys.executable, "-c", code, "memory", "query", "what", *folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == "callboard: chromadb is not installed: pip install 'callboard[memory]'\n"
