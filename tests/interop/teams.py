"""Teams of the real AgentChat with scripted members and models, made alike for any runtime."""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

NAMES = ("ann", "bob", "cy")


class Listener(BaseChatAgent):
    """Says how much it has heard; remembers it in its state."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"{name} listens")
        self.heard: list[str] = []

    @property
    def produced_message_types(self) -> Sequence[type[Any]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        self.heard += [message.to_text() for message in messages]
        text = f"{self.name} has heard {len(self.heard)}, last {self.heard[-1]!r}"[:80]
        return Response(chat_message=TextMessage(content=text, source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None:
        self.heard.clear()

    async def save_state(self) -> Mapping[str, Any]:
        return {"heard": self.heard}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.heard = list(state["heard"])


def members() -> list[Listener]:
    """Three of them."""
    return [Listener(name) for name in NAMES]


def model(*answers: Any) -> Any:
    """A model with these answers."""
    info = {
        "vision": False,
        "function_calling": True,
        "json_output": True,
        "family": ModelFamily.UNKNOWN,
        "structured_output": False,
    }
    return ReplayChatCompletionClient(list(answers), model_info=info)


def call(name: str, **arguments: Any) -> Any:
    """An answer that calls a tool."""
    return CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall(id="1", name=name, arguments=json.dumps(arguments))],
        usage=RequestUsage(prompt_tokens=1, completion_tokens=1),
        cached=False,
    )


def round_robin(runtime: Any) -> Any:
    return RoundRobinGroupChat(members(), max_turns=7, runtime=runtime)


def with_events(runtime: Any) -> Any:
    return RoundRobinGroupChat(members(), max_turns=4, emit_team_events=True, runtime=runtime)


def selector(runtime: Any) -> Any:
    return SelectorGroupChat(
        members(), model("cy", "ann", "nobody", "bob", "cy"), max_turns=4, runtime=runtime
    )


def add(first: int, second: int) -> int:
    """Adds."""
    return first + second


def streaming(runtime: Any) -> Any:
    writer = AssistantAgent(
        "writer",
        model(call("add", first=2, second=3), "It is five, I think.", "Yes, five."),
        tools=[add],
        reflect_on_tool_use=True,
        model_client_stream=True,
    )
    return RoundRobinGroupChat([writer, Listener("ann")], max_turns=3, runtime=runtime)


def swarm(runtime: Any) -> Any:
    ann = AssistantAgent("ann", model(call("transfer_to_bob"), "done"), handoffs=["bob"])
    bob = AssistantAgent("bob", model(call("transfer_to_user")), handoffs=["user"])
    stop = HandoffTermination("user") | MaxMessageTermination(12)
    return Swarm([ann, bob], termination_condition=stop, runtime=runtime)


def graph(runtime: Any) -> Any:
    ann, bob, cy = members()
    builder = DiGraphBuilder()
    for node in (ann, bob, cy):
        builder.add_node(node)
    builder.add_edge(ann, bob)
    builder.add_edge(bob, cy, condition="ann")
    return GraphFlow(builder.get_participants(), builder.build(), runtime=runtime)


def magentic(runtime: Any) -> Any:
    def ledger(speaker: str, *, done: bool = False) -> str:
        no = {"reason": "r", "answer": False}
        return json.dumps(
            {
                "is_request_satisfied": {"reason": "r", "answer": done},
                "is_progress_being_made": {"reason": "r", "answer": True},
                "is_in_loop": no,
                "instruction_or_question": {"reason": "r", "answer": "go on"},
                "next_speaker": {"reason": "r", "answer": speaker},
            }
        )

    answers = ("facts", "plan", ledger("ann"), ledger("bob"), ledger("ann", done=True), "the answer")
    return MagenticOneGroupChat(members(), model(*answers), runtime=runtime)


def nested(runtime: Any) -> Any:
    ann, bob, cy = members()
    inner = RoundRobinGroupChat([ann, bob], max_turns=3, runtime=runtime, name="inner")
    return RoundRobinGroupChat([inner, cy], max_turns=4, runtime=runtime)


KINDS: Mapping[str, Callable[[Any], Any]] = {
    made.__name__: made
    for made in (round_robin, with_events, selector, streaming, swarm, graph, magentic, nested)
}


def transcript(result: TaskResult) -> list[tuple[str, str, str]]:
    """What was said, by whom, in which kind of message; then why it ended."""
    said = [(type(message).__name__, message.source, message.to_text()) for message in result.messages]
    return [*said, ("end", "", str(result.stop_reason))]
