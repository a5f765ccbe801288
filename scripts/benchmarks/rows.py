"""The rows of the table: each measures us and, where there is one, the raw yardstick, in turn."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .flow import KEYS, flow, raw_flow
from .loads import backlog, hot_key, large, stateful, workers
from .messages import FAN, HOPS
from .row import Row, Sample, Size
from .site import ROOT, Site
from .start import start


def handled(site: Site, size: Size) -> Sample:
    """Publish to handled."""
    raw, _ = raw_flow(site, size)
    ours, _ = flow(site, size)
    return {"messages": ours, "raw messages": raw}


def outgoing(site: Site, size: Size) -> Sample:
    """The same with one outgoing message each."""
    raw, _ = raw_flow(site, size, target="target", count=40_000)
    ours, _ = flow(site, size, worker=("relay",), topics="relayed", count=40_000)
    return {"messages": ours, "raw messages": raw}


def server_cpu(site: Site, size: Size) -> Sample:
    """Processor time of the server."""
    return {"us": flow(site, size)[1], "raw us": raw_flow(site, size)[1]}


def _times(site: Site, size: Size, module: str, count: int, in_flight: int) -> tuple[list[float], float]:
    count = size.of(count)
    with site.fresh() as namespace:
        if module == "node":
            site.start("node", "worker", site.url, namespace, "answerer")
            asker = site.start("node", "asker", site.url, namespace, count, in_flight)
        else:
            site.start("raw", "server", site.url, "stream")
            asker = site.start("raw", "asker", site.url, "stream", count, in_flight)
        asker.go()
        result = asker.result()
        return result["times"], count / result["took"]


def request(site: Site, size: Size) -> Sample:
    """Requests one after another."""
    sample = {}
    for prefix, module in (("raw ", "raw"), ("", "node")):
        times, _ = _times(site, size, module, 4000, 1)
        sample[prefix + "median ms"] = statistics.median(times) * 1e3
        sample[prefix + "p99 ms"] = times[int(len(times) * 0.99)] * 1e3
    return {name: sample[name] for name in ("median ms", "p99 ms", "raw median ms", "raw p99 ms")}


def requests(site: Site, size: Size) -> Sample:
    """Requests at the same time."""
    raw = _times(site, size, "raw", 20_000, 100)[1]
    return {"requests": _times(site, size, "node", 20_000, 100)[1], "raw requests": raw}


def hops(site: Site, size: Size) -> Sample:
    """Four processes in a row."""
    return {"messages": _our_hops(site, size), "raw messages": _raw_hops(site, size)}


def _our_hops(site: Site, size: Size) -> float:
    count = size.of(20_000)
    with site.fresh() as namespace:
        for name in HOPS:
            site.start("node", "worker", site.url, namespace, name)
        publisher = site.start("node", "publisher", site.url, namespace, f"to-{HOPS[0]}", count, KEYS)
        publisher.go()
        ended = site.wait_done(namespace, {HOPS[-1]: count})
        return count / (ended - float(publisher.result()["began"]))


def _raw_hops(site: Site, size: Size) -> float:
    count = size.of(20_000)
    with site.fresh():
        streams = [f"s{i}" for i in range(len(HOPS))]
        nodes = [
            site.start("raw", "consumer", site.url, here, count, *streams[i + 1 : i + 2])
            for i, here in enumerate(streams)
        ]
        producer = site.start("raw", "producer", site.url, streams[0], count)
        for node in (*nodes, producer):
            node.go()
        began = producer.result()["began"]
        return float(count / (nodes[-1].result()["ended"] - began))


def fan_out(site: Site, size: Size) -> Sample:
    """One message to ten types."""
    count = size.of(8000)
    with site.fresh():
        fan = site.start("raw", "fan", site.url, "stream", count, len(FAN))
        producer = site.start("raw", "producer", site.url, "stream", count)
        fan.go()
        producer.go()
        began = producer.result()["began"]
        raw = count * len(FAN) / (fan.result()["ended"] - began)
    ours, _ = flow(site, size, worker=FAN, topics="fan", count=8000)
    return {"deliveries": ours * len(FAN), "raw deliveries": raw}


def bytes_queued(site: Site, size: Size) -> Sample:
    """Memory of the server."""
    count = size.of(100_000)
    with site.fresh() as namespace:
        before = site.memory()
        publisher = site.start("node", "publisher", site.url, namespace, "in", count, KEYS)
        publisher.go()
        publisher.result()
        ours = (site.memory() - before) / count
    with site.fresh():
        before = site.memory()
        producer = site.start("raw", "producer", site.url, "stream", count)
        producer.go()
        producer.result()
        return {"bytes": ours, "raw bytes": (site.memory() - before) / count}


def _slower(rate_with: Callable[[int], float], few: int, many: int) -> float:
    """How much slower many are than few, %; both twice, so that a machine that slows down favours neither."""
    rates = dict.fromkeys((few, many), 0.0)
    for number in (few, many, many, few):
        rates[number] += rate_with(number)
    return 100 * (1 - rates[many] / rates[few])


def many_keys(site: Site, size: Size) -> Sample:
    """The cost of many agent keys."""
    return {"% slower": _slower(lambda keys: flow(site, size, keys=keys, count=100_000)[0], 1_000, 100_000)}


def many_topics(site: Site, size: Size) -> Sample:
    """The cost of many topics."""

    def rate(topics: int) -> float:
        worker, source = (f"wide:{topics}",), f"in*{topics}"
        return flow(site, size, worker=worker, topics=source, done=("sink",), keys=1000)[0]

    def raw_rate(topics: int) -> float:
        return raw_flow(site, size, streams=f"in*{topics}")[0]

    return {"% slower": _slower(rate, 10, 1_000), "raw % slower": _slower(raw_rate, 10, 1_000)}


def state(site: Site, size: Size) -> Sample:
    """What a turn of a conversation costs more, at the 2,000th than at the 20th."""
    with site.fresh() as namespace:
        chat = site.start("chat", site.url, namespace)
        chat.go()
        found = chat.result()
    early, late = found["early"], found["late"]
    return {f"% more {name}": 100 * (late[name] / early[name] - 1) for name in ("bytes", "cpu")}


def chats(site: Site, size: Size) -> Sample:
    """Milliseconds of a turn in a chat of one process, early and late."""
    command = [sys.executable, "-m", "scripts.benchmarks.chats"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: Sample = json.loads(printed)
    return found


def memory(site: Site, size: Size) -> Sample:
    """Memory of a worker."""
    count = size.of(200_000)
    with site.fresh() as namespace:
        first = site.start("node", "worker", site.url, namespace, "sink")
        idle = first.memory
        first.end()
        publisher = site.start("node", "publisher", site.url, namespace, "in", count, KEYS, 1024)
        publisher.go()
        publisher.result()
        worker = site.start("node", "worker", site.url, namespace, "sink")
        before, most = worker.memory, 0
        done = f"callboard:{{{namespace}}}:stats:sink"
        while int(site.redis.hget(done, "done") or 0) < count:
            most = max(most, worker.memory)
            time.sleep(0.02)
        most = max(most, worker.memory)
    return {"idle MB": idle / 1e6, "growth MB": max(0, most - min(before, idle)) / 1e6}


def imports(site: Site, size: Size) -> Sample:
    """The time of an import."""

    def timed(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        return time.perf_counter() - began

    return {
        "s": timed("from callboard import App, RoutedAgent"),
        "raw s": timed("import redis.asyncio, msgpack, pydantic"),
    }


def embedded(site: Site, size: Size) -> Sample:
    """The time of the embedded server's start."""
    code = (
        "import asyncio, time\n"
        "from pathlib import Path\n"
        "from callboard.broker.redis.embedded import EmbeddedServer\n"
        "async def main():\n"
        "    began = time.perf_counter()\n"
        "    server = await EmbeddedServer.acquire(Path({folder!r}))\n"
        "    print(time.perf_counter() - began)\n"
        "    await server.release()\n"
        "asyncio.run(main())\n"
    )
    import tempfile

    folder = tempfile.mkdtemp(prefix="cb")
    try:
        found = subprocess.run(
            [sys.executable, "-c", code.format(folder=str(Path(folder) / "state"))],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        return {"s": float(found.stdout)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def redis_benchmark(site: Site, size: Size) -> Sample:
    """XADD of 200 bytes, one client, 64 commands at a time, and PING one at a time."""
    if site.benchmark is None:
        return {}
    body = "x" * 200
    common = [site.benchmark, "-s", site.socket, "-q", "--csv", "-c", "1"]

    def rate(*arguments: str) -> float:
        command = [*common, *arguments]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(found.strip().splitlines()[-1].split(",")[1].strip('"'))

    with site.fresh():
        count = str(size.of(200_000))
        return {
            "XADD": rate("-n", count, "-P", "64", "XADD", "bench", "*", "d", body),
            "PING": rate("-n", str(size.of(20_000)), "-t", "ping_mbulk"),
        }


ROWS = (
    Row(
        "handled",
        "publish to handled, one publisher, one worker",
        "per second",
        handled,
        (20_000,),
        (40_000,),
    ),
    Row("outgoing", "the same with one outgoing message each", "per second", outgoing, (15_000,), (30_000,)),
    Row("request", "request and reply, one at a time", "ms", request, (0.9, 2.5), (0.6, 1.2), True),
    Row("requests", "requests, 100 in flight", "per second", requests, (6_000,), (12_000,)),
    Row("hops", "four agent types in four processes in a row", "per second", hops, (3_500,), (9_000,)),
    Row("fan-out", "one publish to ten types in one process", "deliveries/s", fan_out, (15_000,), (60_000,)),
    Row(
        "workers",
        "CPU of a message in 1, 2 and 4 workers of one type",
        "microseconds",
        workers,
        (40, 60, 80),
        (25, 30, 40),
        True,
    ),
    Row("large", "messages of 10 KB, of 100 KB", "per second", large, (8_000, 1_000), (15_000, 2_500)),
    Row("stateful", "handled by agents that keep a state", "per second", stateful, (10_000,), (20_000,)),
    Row(
        "backlog",
        "a backlog of 200,000, or --backlog N, by one worker",
        "per second",
        backlog,
        (20_000,),
        (40_000,),
    ),
    Row("hot", "all messages for one agent", "per second", hot_key, (15_000,), (30_000,)),
    Row("cpu", "server CPU per handled message", "microseconds", server_cpu, (25,), (14,), True),
    Row("bytes", "server bytes per queued 180-byte message", "bytes", bytes_queued, (330,), (280,), True),
    Row("keys", "100,000 agent keys against 1,000", "% slower", many_keys, (20,), (5,), True, False),
    Row("topics", "1,000 topics against 10", "% slower", many_topics, (20,), (5,), True, False),
    Row(
        "state",
        "a turn of a conversation at 2,000 against 20: bytes, CPU",
        "% more",
        state,
        (20, 20),
        (5, 10),
        True,
        False,
    ),
    Row(
        "chats",
        "turn 100, 1,000, 2,000 of a chat; of a team of assistants",
        "ms",
        chats,
        (0.2, 0.5, 1, 0.3, 0.3, 0.3),
        (0.1, 0.25, 0.5, 0.2, 0.2, 0.2),
        True,
    ),
    Row("memory", "worker memory: idle, growth over 200,000 x 1 KB", "MB", memory, (60, 50), (45, 20), True),
    Row("import", "import of App and RoutedAgent, in a new interpreter", "s", imports, (0.35,), (0.2,), True),
    Row("start", "worker start to first message committed", "s", start, (1.0,), (0.4,), True),
    Row("embedded", "embedded server start", "s", embedded, (0.2,), (0.05,), True),
)
"""Every row, in the order of the table."""
