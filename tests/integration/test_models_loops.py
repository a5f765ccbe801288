"""Sync chats with a real server: each has an event loop of its own, and leaves no connection to a loop that is closed."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class Answering(BaseHTTPRequestHandler):
    """Gives the same answer to everything, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


CHATS = {
    "fresh agents": """
        for _ in range(10):
            ann, bob = agents()
            result = ann.initiate_chat(bob, message="Hi", max_turns=2, silent=True)
    """,
    "the same agents": """
        ann, bob = agents()
        for _ in range(10):
            result = ann.initiate_chat(bob, message="Hi", max_turns=2, silent=True)
    """,
    "a chat within a chat": """
        def ask(recipient, messages=None, sender=None, config=None):
            ann, bob = agents()
            return True, ann.initiate_chat(bob, message="Hi", max_turns=1, silent=True).summary

        for _ in range(5):
            ann, bob = agents()
            bob.register_reply([ConversableAgent, None], ask)
            result = ann.initiate_chat(bob, message="Hi", max_turns=2, silent=True)
    """,
    "loops of the program's own": """
        import asyncio
        for _ in range(10):
            ann, bob = agents()
            result = asyncio.run(ann.a_initiate_chat(bob, message="Hi", max_turns=2, silent=True))
            del ann, bob
            gc.collect()
    """,
}


@pytest.mark.parametrize("way", CHATS)
def test_nothing_is_said_of_closed_loops(address: str, way: str) -> None:
    begin = f"""
        import gc
        from callboard.groupchat import ConversableAgent

        def agents():
            config = {{"model": "gpt-4o", "api_key": "x", "base_url": {address!r}}}
            return [ConversableAgent(name, llm_config=config, human_input_mode="NEVER") for name in ("ann", "bob")]
    """
    program = "\n".join(map(textwrap.dedent, (begin, CHATS[way], "print(result.summary)\ngc.collect()\n")))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hi\n", "")
