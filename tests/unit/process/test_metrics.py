"""Metrics: what is counted of which event, what a scrape of a namespace says, and the pages and files that name them."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from callboard.broker.errors import SettingsError
from callboard.broker.redis.operations.views import PulseView, TypePulse, WorkerPulse
from callboard.broker.telemetry import (
    LISTENERS,
    Beat,
    Connected,
    DeadLettered,
    Disconnected,
    Dropped,
    Event,
    Fenced,
    Handled,
    ModelAsked,
    Published,
    Released,
    Retried,
    Started,
    ToolCalled,
    WaitsForAnswer,
    emit,
)
from callboard.process.metrics import (
    MOST,
    OTHER,
    Look,
    MetricsError,
    MetricsServer,
    NamespaceMetrics,
    WorkerMetrics,
    address_of,
    said,
    scrape,
    worker_routes,
)

DOCS = Path(__file__).parents[3] / "docs"

EVENTS: list[tuple[Event, str, float]] = [
    (Started("packer/a", "1", "Order", 1, 0.2), 'waited_seconds_count{type="packer"}', 1),
    (Handled("packer/a", "1", "Order", 0.2), 'handled_total{outcome="committed",type="packer"}', 1),
    (Handled("packer/a", "1", "Order", 0.2), 'handling_seconds_bucket{le="0.5",type="packer"}', 1),
    (Retried("packer/a", "1", "Order", 1, 2.0, "E"), 'handled_total{outcome="retried",type="packer"}', 1),
    (DeadLettered("packer/a", "1", "O", 3, "r", "E"), 'handled_total{outcome="dead",type="packer"}', 1),
    (Released("packer/a/b", "1", "drain"), 'handled_total{outcome="released",type="packer"}', 1),
    (WaitsForAnswer("packer/a", "1", 1), 'handled_total{outcome="suspended",type="packer"}', 1),
    (Dropped("packer/a", "1", "O", "expired"), 'handled_total{outcome="dropped",type="packer"}', 1),
    (Published("1", "Order", "topic:orders", "a"), 'published_total{kind="topic"}', 1),
    (Beat("w", 5, 3), "running{}", 3),
    (Beat("w", 5, 3), "held{}", 5),
    (Fenced("w", 5), "fenced_total{}", 1),
    (Connected("redis://h", True), "reconnects_total{}", 1),
    (Connected("redis://h", False), "connected{}", 1),
    (Disconnected("redis://h", "gone"), "connected{}", 0),
    (
        ModelAsked("writer", "gpt", "outage", 0.2, 0, 0, 0, 0),
        'model_requests_total{agent="writer",model="gpt",status="outage"}',
        1,
    ),
    (
        ModelAsked("writer", "gpt", "ok", 0.2, 30, 5, 20, 0),
        'model_tokens_total{agent="writer",kind="cached",model="gpt"}',
        20,
    ),
    (ToolCalled("search", "error", 0.2), 'tool_calls_total{status="error",tool="search"}', 1),
]


def samples(registry: Any) -> dict[str, float]:
    """Each sample of a scrape, by its name and its labels without the namespace."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(scrape(registry).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("namespace") == "shop"
            shown = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
            found[f"{sample.name.removeprefix('callboard_')}{{{shown}}}"] = sample.value
    return found


@pytest.mark.parametrize(("event", "sample", "value"), EVENTS)
def test_an_event_is_counted(event: Event, sample: str, value: float) -> None:
    metrics = WorkerMetrics("shop")
    metrics.heard(event)
    assert samples(metrics.registry)[sample] == value


def test_it_counts_from_when_it_listens_until_it_does_not() -> None:
    metrics = WorkerMetrics("shop")
    emit(Fenced, "w", 0)
    end = metrics.listen()
    emit(Fenced, "w", 0)
    end()
    emit(Fenced, "w", 0)
    assert samples(metrics.registry)["fenced_total{}"] == 1
    assert not LISTENERS


def test_however_many_names_there_are_the_series_are_few() -> None:
    metrics = WorkerMetrics("shop")
    for number in range(1000):
        metrics.heard(Released(f"type{number}/key", "1", "drain"))
        metrics.heard(ToolCalled(f"tool\n{number}\u202e", "ok", 0.1))
    found = samples(metrics.registry)
    handled = [name for name in found if name.startswith("handled_total")]
    assert len(handled) == MOST["type"] + 1
    assert found[f'handled_total{{outcome="released",type="{OTHER}"}}'] == 1000 - MOST["type"]
    assert len([name for name in found if name.startswith("tool_calls_total")]) == MOST["tool"] + 1


def look(**types: int | None) -> Look:
    counted = tuple(
        TypePulse(type=name, waiting=waiting, running=1, asking=2, done=3, dead=4, died=5)
        for name, waiting in types.items()
    )
    workers = (WorkerPulse(name="a", lease_ms_left=10), WorkerPulse(name="b", lease_ms_left=-1))
    return Look(PulseView(at=10_000, types=counted, workers=workers), 2, 4_000, 0.5)


def test_a_scrape_of_a_namespace_is_what_the_last_look_found() -> None:
    metrics = NamespaceMetrics("shop")
    assert samples(metrics.registry) == {}
    metrics.seen(look(gone=9))
    metrics.seen(look(packer=7, broken=None))
    found = samples(metrics.registry)
    assert found['waiting{type="packer"}'] == 7
    assert 'waiting{type="broken"}' not in found
    assert 'waiting{type="gone"}' not in found
    assert found['done_total{type="broken"}'] == 3
    assert (found["workers{}"], found["questions_open{}"], found["question_oldest_seconds{}"]) == (1, 2, 6)


def names() -> set[str]:
    """Every name that a scrape of a worker or a namespace may have, without `callboard_`."""
    worker, namespace = WorkerMetrics("shop"), NamespaceMetrics("shop")
    for event, _, _ in EVENTS:
        worker.heard(event)
    namespace.seen(look(packer=1))
    found = {*samples(worker.registry), *samples(namespace.registry)}
    return {name.partition("{")[0] for name in found}


def test_the_page_lists_every_metric_and_no_other() -> None:
    page = (DOCS / "metrics.md").read_text()
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (?:gauge|counter|histogram)", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    shown = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in names()}
    assert listed == shown - {re.sub(r"_total$", "", name) for name in shown if name.endswith("_total")}


@pytest.mark.parametrize("file", ["operate/alerts.yaml", "operate/grafana.json"])
def test_the_files_to_copy_name_metrics_that_exist(file: str) -> None:
    text = (DOCS / file).read_text()
    yaml.safe_load(text) if file.endswith("yaml") else json.loads(text)
    named = set(re.findall(r"callboard_(\w+)", text))
    assert named
    assert named <= names()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:0", ("::1", 0)),
        (":80", ("127.0.0.1", 80)),
    ],
)
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["", "http", "host:", "1.5", "70000", "-1", "٣", "0.0.0.0:9464/metrics"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="ADDRESS:PORT"):
        address_of(text)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_port_that_is_taken_is_said() -> None:
    with (
        MetricsServer("127.0.0.1", 0, {}) as first,
        pytest.raises(MetricsError, match=f":{first.port}: .*another"),
    ):
        MetricsServer("127.0.0.1", first.port, {})


async def test_the_pages_of_a_worker() -> None:
    metrics = WorkerMetrics("shop")
    routes = worker_routes(metrics, asyncio.get_running_loop(), lease=60.0)
    with MetricsServer("127.0.0.1", 0, routes) as server:

        async def status(page: str) -> int:
            return (await asyncio.to_thread(get, f"{server.url}{page}"))[0]

        assert await status("/healthz") == 200
        assert await status("/readyz") == 503
        metrics.heard(Beat("w", 0, 0))
        assert await status("/readyz") == 200
        metrics.heard(Fenced("w", 0))
        assert await status("/readyz") == 503
        assert await status("/metrics?x=1") == 200
        assert await status("/../etc/passwd") == 404


async def test_a_worker_that_the_server_has_not_heard_for_a_lease_is_not_ready() -> None:
    metrics = WorkerMetrics("shop")
    routes = worker_routes(metrics, asyncio.get_running_loop(), lease=10.0)
    metrics.beaten = time.monotonic() - 11
    assert routes["/readyz"]().status == 503


async def test_a_loop_that_is_blocked_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.process.metrics.LOOP_PATIENCE", 0.05)
    routes = worker_routes(WorkerMetrics("shop"), asyncio.get_running_loop(), lease=10.0)
    # Called in the thread of the loop: while it waits the loop can't answer.
    assert routes["/healthz"]() == said(503, "blocked", detail="the event loop did not answer within 0.05 s")
