from callboard import AgentId, AgentProxy, CancellationToken

from .recording import RecordingRuntime


async def test_a_proxy_stands_for_its_agent() -> None:
    runtime, agent_id = RecordingRuntime(), AgentId("counter", "main")
    proxy = AgentProxy(agent_id, runtime)
    assert proxy.id == agent_id
    assert await proxy.metadata == {"type": "counter", "key": "main", "description": "described"}
    assert repr(proxy) == f"AgentProxy({agent_id!r})"


async def test_a_proxy_sends() -> None:
    runtime, token = RecordingRuntime(), CancellationToken()
    proxy = AgentProxy(AgentId("counter", "main"), runtime)
    sender = AgentId("a", "1")
    assert await proxy.send_message("hi", sender=sender, cancellation_token=token, message_id="m") == "answer"
    options = {"sender": sender, "cancellation_token": token, "message_id": "m"}
    assert runtime.sent == [("hi", proxy.id, options)]


async def test_a_proxy_saves_and_loads() -> None:
    proxy = AgentProxy(AgentId("counter", "main"), RecordingRuntime())
    await proxy.load_state({"total": 1})
    assert await proxy.save_state() == {"total": 1}
