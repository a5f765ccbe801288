"""One publisher and one worker, each a process: what most rows measure in one way or another."""

from __future__ import annotations

from .row import Size
from .site import Site

KEYS = 10_000


def flow(
    site: Site,
    size: Size,
    *,
    worker: tuple[str, ...] = ("sink",),
    topics: str = "in",
    count: int = 60_000,
    keys: int = KEYS,
    done: tuple[str, ...] = (),
    bytes_each: int | str = "",
) -> tuple[float, float]:
    """One publisher and one worker process: messages per second, server CPU in microseconds per message."""
    count = size.of(count)
    with site.fresh() as namespace:
        site.start("node", "worker", site.url, namespace, *worker)
        publisher = site.start("node", "publisher", site.url, namespace, topics, count, keys, bytes_each)
        before = site.cpu()
        publisher.go()
        ended = site.wait_done(namespace, dict.fromkeys(done or worker, count))
        used = site.cpu() - before
        return count / (ended - publisher.result()["began"]), used / count * 1e6


def raw_flow(
    site: Site, size: Size, *, streams: str = "stream", target: str = "", count: int = 60_000
) -> tuple[float, float]:
    """The same by the yardstick; `streams`: one, or `<name>*<n>`."""
    count = size.of(count)
    with site.fresh():
        consumer = site.start("raw", "consumer", site.url, streams, count, *((target,) if target else ()))
        producer = site.start("raw", "producer", site.url, streams, count)
        before = site.cpu()
        consumer.go()
        producer.go()
        began = producer.result()["began"]
        ended = consumer.result()["ended"]
        return count / (ended - began), (site.cpu() - before) / count * 1e6
