"""Rows about loads that are not the usual one: several workers, large messages, states, a backlog, one hot key."""

from __future__ import annotations

import time

from .flow import KEYS, flow
from .row import Sample, Size
from .site import Node, Site


def workers(site: Site, size: Size) -> Sample:
    """What a message costs worker processes of one type: all of them together, in microseconds of processor time."""
    return {f"{count} workers": _cost_of(site, size.of(60_000), count) for count in (1, 2, 4)}


def _cost_of(site: Site, count: int, workers: int) -> float:
    with site.fresh() as namespace:
        nodes = [site.start("node", "worker", site.url, namespace, "sink") for _ in range(workers)]
        publisher = site.start("node", "publisher", site.url, namespace, "in", count, KEYS)
        before = _spent(nodes)
        publisher.go()
        site.wait_done(namespace, {"sink": count})
        return (_spent(nodes) - before) / count * 1e6


def _spent(nodes: list[Node]) -> float:
    return sum(node.cpu for node in nodes)


def large(site: Site, size: Size) -> Sample:
    """Messages of 10 and 100 KB."""
    ten, _ = flow(site, size, count=20_000, bytes_each=10_000)
    hundred, _ = flow(site, size, count=4_000, bytes_each=100_000)
    return {"of 10 KB": ten, "of 100 KB": hundred}


def stateful(site: Site, size: Size) -> Sample:
    """Each commit writes the agent's state."""
    return {"messages": flow(site, size, worker=("counter",), topics="counted", count=40_000)[0]}


def hot_key(site: Site, size: Size) -> Sample:
    """One agent gets everything."""
    return {"messages": flow(site, size, keys=1)[0]}


def backlog(site: Site, size: Size) -> Sample:
    """A worker comes to a long queue."""
    count = size.of(size.backlog)
    with site.fresh() as namespace:
        publisher = site.start("node", "publisher", site.url, namespace, "in", count, KEYS)
        publisher.go()
        publisher.result()
        worker = site.spawn("node", "worker", site.url, namespace, "sink")
        worker.wait_ready()
        done, began = site.done(namespace, "sink"), time.time()
        return {"messages": (count - done) / (site.wait_done(namespace, {"sink": count}) - began)}
