import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import callboard
from tests.helpers.processes import ROOT

STUBS = sorted((ROOT / "callboard").rglob("__init__.pyi"))
ALIASES = {"callboard.groupchat": {"Agent"}}  # of ChatAgent


def _package(stub: Path) -> str:
    return ".".join(stub.parent.relative_to(ROOT).parts)


def _seen_by_type_checkers(stub: Path) -> list[str]:
    """The names that a stub offers again, `from .module import Name as Name`, and those it gives a value."""
    names: list[str] = []
    for node in ast.parse(stub.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname for alias in node.names if alias.asname]
        if isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return sorted(names)


@pytest.mark.parametrize("stub", STUBS, ids=_package)
def test_a_package_offers_what_type_checkers_see(stub: Path) -> None:
    package = importlib.import_module(_package(stub))
    assert sorted(package.__all__) == _seen_by_type_checkers(stub)
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("stub", [stub for stub in STUBS if "interop" not in stub.parts], ids=_package)
def test_every_name_is_there_and_is_called_so(stub: Path) -> None:
    """Those for AutoGen's own packages need these installed, and have tests beside them."""
    package = importlib.import_module(_package(stub))
    found = {name: getattr(package, name) for name in package.__all__}
    named = {name: one for name, one in found.items() if inspect.isclass(one) or inspect.isfunction(one)}
    assert {name for name, one in named.items() if one.__name__ != name} == ALIASES.get(
        package.__name__, set()
    )


def test_the_names_of_autogen_core_that_make_sense_are_there() -> None:
    names = """Agent AgentId AgentProxy AgentMetadata AgentRuntime BaseAgent CancellationToken
        AgentInstantiationContext TopicId Subscription MessageContext AgentType SubscriptionInstantiationContext
        MessageHandlerContext RoutedAgent ClosureAgent ClosureContext message_handler event rpc TypeSubscription
        DefaultSubscription DefaultTopicId default_subscription type_subscription TypePrefixSubscription DropMessage
        InterventionHandler DefaultInterventionHandler Component ComponentBase ComponentFromConfig ComponentLoader
        ComponentModel ComponentSchemaType ComponentToConfig ComponentType is_component_class is_component_instance
        CacheStore InMemoryStore FunctionCall Image EVENT_LOGGER_NAME ROOT_LOGGER_NAME TRACE_LOGGER_NAME
        trace_create_agent_span trace_invoke_agent_span trace_tool_span"""
    assert set(names.split()) <= set(callboard.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No callboard attribute Aktor"):
        callboard.Aktor  # type: ignore[attr-defined]  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, callboard; print([m for m in ('asyncio', 'pydantic', 'redis', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_making_clients_of_makers_loads_no_package_of_theirs() -> None:
    code = (
        "import sys; from callboard.models.anthropic import AnthropicChatCompletionClient as Claude;"
        "from callboard.models.gemini import GeminiChatCompletionClient as Gemini;"
        "from callboard.models.openai_responses import OpenAIResponsesChatCompletionClient as Responses;"
        "Claude('claude-sonnet-4-6', api_key='k'); Gemini('gemini-3-flash', api_key='k'); Responses('gpt-5.4', api_key='k');"
        "names = ('anthropic', 'google.genai', 'httpx2', 'openai', 'pydantic_ai');"
        "print([m for m in names if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_declaring_an_app_loads_neither_redis_nor_asyncio() -> None:
    code = (
        "import sys; from callboard import App, MessageContext, RoutedAgent, event, rpc; App('a');"
        "print([m for m in ('asyncio', 'redis', 'typer', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
