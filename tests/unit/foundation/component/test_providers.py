"""The list of providers."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

import callboard
from callboard.foundation.component import (
    ComponentLoader,
    ComponentNotAllowedError,
    class_of,
    is_component_class,
    own_name,
    provider_of,
)
from callboard.foundation.providers import AUTOGEN, AUTOGEN_PACKAGES, ELSEWHERE, PROVIDERS

ROOT = Path(callboard.__file__).resolve().parent
PUBLIC = {
    ".".join(("callboard", *path.parent.relative_to(ROOT).parts))
    for path in ROOT.rglob("__init__.pyi")
    if "interop" not in path.parts  # needs AutoGen itself, and has no components of ours
}
LISTED = [f"{package}.{name}" for package, names in PROVIDERS.items() for name in names]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("openai_chat_completion_client", "callboard.models.openai.OpenAIChatCompletionClient"),
        ("azure_openai_chat_completion_client", "callboard.models.openai.AzureOpenAIChatCompletionClient"),
        (
            "autogen_ext.models.openai.OpenAIChatCompletionClient",
            "callboard.models.openai.OpenAIChatCompletionClient",
        ),
        (
            "autogen_ext.models.replay.ReplayChatCompletionClient",
            "callboard.models.ReplayChatCompletionClient",
        ),
        ("autogen_ext.models.cache.ChatCompletionCache", "callboard.models.CachedChatCompletionClient"),
        ("autogen_core.InMemoryStore", "callboard.InMemoryStore"),
        ("autogen_core.memory.ListMemory", "callboard.memory.ListMemory"),
        (
            "autogen_core.model_context.BufferedChatCompletionContext",
            "callboard.memory.contexts.BufferedChatCompletionContext",
        ),
        ("autogen_core.tools.StaticWorkbench", "callboard.tools.StaticWorkbench"),
        ("autogen_ext.tools.http.HttpTool", "callboard.tools.HttpTool"),
        ("autogen_agentchat.agents.AssistantAgent", "callboard.agents.AssistantAgent"),
        ("autogen_agentchat.teams.Swarm", "callboard.teams.Swarm"),
        ("autogen_agentchat.base.OrTerminationCondition", "callboard.base.OrTerminationCondition"),
        (
            "autogen_ext.tools.code_execution.PythonCodeExecutionTool",
            "callboard.code.PythonCodeExecutionTool",
        ),
        ("autogen_agentchat.tools.TeamTool", "callboard.tools.TeamTool"),
    ],
)
def test_autogens_names_are_understood(theirs: str, ours: str) -> None:
    assert own_name(theirs) == ours
    assert ours in LISTED


def test_every_translation_leads_to_something_that_is_listed() -> None:
    assert set(AUTOGEN.values()) <= set(LISTED)
    assert set(AUTOGEN_PACKAGES.values()) <= set(PROVIDERS)


@pytest.mark.parametrize("provider", LISTED)
def test_every_provider_is_a_component_of_that_name(provider: str) -> None:
    cls = class_of(provider)
    assert is_component_class(cls)
    assert provider_of(cls) == provider


@pytest.mark.parametrize("package", sorted(PUBLIC | set(PROVIDERS)))
def test_every_public_component_can_be_loaded_from_its_dump(package: str) -> None:
    """Which is easily forgotten of a new termination condition, memory, agent or team: each has a line in the list."""
    module = import_module(package)
    names = getattr(module, "__all__", dir(module))
    classes = [found for found in (getattr(module, name) for name in names) if inspect.isclass(found)]
    components = [found for found in classes if is_component_class(found)]
    assert [provider_of(found) for found in components if provider_of(found) not in LISTED] == []


@pytest.mark.parametrize("provider", sorted(ELSEWHERE))
def test_what_we_do_not_have_says_what_to_use(provider: str) -> None:
    with pytest.raises(ComponentNotAllowedError, match=r"callboard\."):
        ComponentLoader.load_component({"provider": provider, "config": {}})


def test_a_slip_of_the_pen_is_told() -> None:
    with pytest.raises(ComponentNotAllowedError, match=r"did you mean 'callboard.memory.ListMemory'"):
        ComponentLoader.load_component({"provider": "callboard.memory.ListMemmory", "config": {}})


def test_the_list_imports_nothing() -> None:
    code = (
        "import sys; import callboard.foundation.component;"
        "print([m for m in sys.modules if m.startswith('callboard.') and 'foundation' not in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_listed_and_not_there_yet_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        cast("dict[str, tuple[str, ...]]", PROVIDERS), "callboard.memory", ("RedisMemory", "ListMemory")
    )
    with pytest.raises(ComponentNotAllowedError, match="this version of Callboard does not have it"):
        class_of("callboard.memory.RedisMemory")
