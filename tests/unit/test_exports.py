import inspect
import subprocess
import sys

import pytest

import callboard


def test_all_names_everything_and_everything_is_there() -> None:
    assert sorted(callboard.__all__) == sorted(callboard.__all__)
    for name in callboard.__all__:
        found = getattr(callboard, name)
        assert not (inspect.isclass(found) or inspect.isfunction(found)) or found.__name__ == name
    assert set(callboard.__all__) <= set(dir(callboard))


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


def test_declaring_an_app_loads_neither_redis_nor_asyncio() -> None:
    code = (
        "import sys; from callboard import App, MessageContext, RoutedAgent, event, rpc; App('a');"
        "print([m for m in ('asyncio', 'redis', 'typer', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
