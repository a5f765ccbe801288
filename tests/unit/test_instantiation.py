import pytest

from callboard import AgentId, AgentInstantiationContext, AgentType, SubscriptionInstantiationContext
from callboard.errors import MisuseError

from .recording import RecordingRuntime


def test_a_factory_learns_which_agent_it_makes() -> None:
    runtime, agent_id = RecordingRuntime(), AgentId("a", "k")
    assert not AgentInstantiationContext.is_in_factory_call()
    with AgentInstantiationContext.populate_context((runtime, agent_id)):
        assert AgentInstantiationContext.is_in_factory_call()
        assert AgentInstantiationContext.current_runtime() is runtime
        assert AgentInstantiationContext.current_agent_id() == agent_id
    assert not AgentInstantiationContext.is_in_factory_call()


def test_outside_of_a_factory_there_is_nothing_to_learn() -> None:
    with pytest.raises(RuntimeError, match=r"AgentInstantiationContext\.current_runtime\(\)"):
        AgentInstantiationContext.current_runtime()
    with pytest.raises(MisuseError, match=r"AgentInstantiationContext\.current_agent_id\(\)"):
        AgentInstantiationContext.current_agent_id()


def test_a_subscription_learns_its_agent_type() -> None:
    with SubscriptionInstantiationContext.populate_context(AgentType("a")):
        assert SubscriptionInstantiationContext.agent_type() == AgentType("a")
    with pytest.raises(RuntimeError, match="the registration of an agent type"):
        SubscriptionInstantiationContext.agent_type()


@pytest.mark.parametrize("static", [AgentInstantiationContext, SubscriptionInstantiationContext])
def test_the_classes_can_not_be_instantiated(static: type) -> None:
    with pytest.raises(MisuseError, match=f"{static.__name__} cannot be instantiated"):
        static()
