"""`callboard demo --model`: a model words the digest, nothing is paid twice, and what is wrong is one sentence."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from examples.digest.documents import prepare
from examples.digest.result import render
from examples.digest.steps import rehearse
from tests.helpers.openai_server import Answer, Asked, OpenAIServer, bad_key

from .commands import ShopFolder, workers_in

SAMPLE = Path(__file__).parents[3] / "examples" / "digest" / "sample.md"


class Model:
    """Shortens each numbered line to five words, and has a remark for the reviewer."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        system, last = asked.body["messages"][0]["content"], asked.body["messages"][-1]["content"]
        self.requests[json.dumps(asked.body["messages"])] += 1
        if "review" in system:
            return await Answer("Say more about lamps.")(asked, server)
        lines = re.findall(r"^(\d+\.)((?: \S+){5})", last, re.MULTILINE)
        return await Answer("\n".join(f"{number}{words}." for number, words in lines) or "yes")(asked, server)


@pytest.fixture
def model_server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def stage(shop: ShopFolder, model_server: OpenAIServer) -> ShopFolder:
    """A folder with a text, whose environment leads to the model."""
    shutil.copy(SAMPLE, shop.folder / "text.md")
    hidden = [name for name in shop.environ if name.startswith("OPENAI_")]
    for name in hidden:
        del shop.environ[name]
    shop.environ["OPENAI_BASE_URL"] = model_server.url
    return shop


def demo(stage: ShopFolder, *options: str) -> tuple[int, str, str]:
    url = stage.environ["CALLBOARD_URL"]
    done = stage.run("demo", "text.md", "--url", url, *options, timeout=300)
    assert "Traceback" not in done.stderr
    assert workers_in(stage.folder) == []
    return done.returncode, done.stdout, done.stderr


def report(stage: ShopFolder, *options: str) -> dict[str, Any]:
    code, out, err = demo(stage, "--json", *options)
    assert code == 0, err
    data: dict[str, Any] = json.loads(out)
    assert data["exact"]
    return {**data, "stderr": err}


def test_nothing_is_paid_twice_when_a_worker_is_killed(stage: ShopFolder, model_server: OpenAIServer) -> None:
    plain_model, killed_model = Model(), Model()
    model_server.default = plain_model
    plain = report(stage, "--model", "small", "--price", "1/2")
    model_server.default = killed_model
    killed = report(stage, "--model", "small", "--kill", "--pace", "0.4")
    assert len(killed["killed"]) == 1
    assert killed["digest"] == plain["digest"], "another digest after a kill"
    own_words = render(rehearse(prepare([SAMPLE]).requirements("digest", words=350, pace=0.0)))
    assert len(plain["digest"]) < len(own_words), "the digest is not in the model's words"
    assert any("Say more about lamps." in request for request in plain_model.requests)
    assert set(killed_model.requests) == set(plain_model.requests)
    answers = plain_model.requests.total()
    assert answers > 30
    # 7 tokens read and 3 written for each answer.
    assert plain["model"] == "small"
    assert plain["spent"] == {
        "requests": answers,
        "prompt_tokens": 7 * answers,
        "completion_tokens": 3 * answers,
        "usd": pytest.approx((7 * 1 + 3 * 2) * answers / 1e6),
        "unpriced": 0,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
    }
    # Only what the dead process had not recorded yet is asked for again: at most one request for each message it held.
    [held] = re.findall(r"with -9 while it held (\d+) messages", killed["stderr"])
    again = killed_model.requests - plain_model.requests
    assert again.total() <= int(held)
    assert answers <= killed["spent"]["requests"] <= answers + again.total()


def test_a_budget_that_is_used_up_ends_it(stage: ShopFolder, model_server: OpenAIServer) -> None:
    model_server.default = Model()
    code, _, err = demo(stage, "--model", "small", "--tokens", "450")
    assert code == 1
    assert "small answers" in err
    assert "failed for good: BudgetExceededError" in err
    assert "450" in err


def test_a_key_that_is_wrong(stage: ShopFolder, model_server: OpenAIServer) -> None:
    model_server.default = bad_key()
    code, _, err = demo(stage, "--model", "small")
    assert code == 1
    assert "the model can't be used: small: " in err
    assert "OPENAI_API_KEY" in err


def test_a_server_that_is_not_there(stage: ShopFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    stage.environ["OPENAI_BASE_URL"] = f"http://127.0.0.1:{port}/v1"
    code, _, err = demo(stage, "--model", "small")
    assert code == 3
    assert f"127.0.0.1:{port}" in err
    assert "Check the base_url and that the server runs" in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--model", "small"), "set OPENAI_API_KEY, or OPENAI_BASE_URL"),
        (("--tokens", "5"), "give --model NAME too"),
        (("--price", "1/2"), "give --model NAME too"),
    ],
)
def test_wrong_use(stage: ShopFolder, options: tuple[str, ...], sentence: str) -> None:
    del stage.environ["OPENAI_BASE_URL"]
    code, _, err = demo(stage, *options)
    assert code == 2
    assert sentence in " ".join(err.split())


def test_a_price_that_is_none(stage: ShopFolder) -> None:
    code, _, err = demo(stage, "--model", "small", "--price", "cheap")
    assert code == 2
    assert "'cheap' is no price" in err
