"""The time from the start of a process to its first message, ours and raw."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgpack

from .messages import small
from .row import Sample, Size
from .site import PATIENCE, ROOT, Site

RAW = Path(__file__).with_name("raw_first.py")


def start(site: Site, size: Size) -> Sample:
    """The time of a start."""
    return {"s": _ours(site), "raw s": _raw(site)}


def _ours(site: Site) -> float:
    with site.fresh() as namespace:
        publisher = site.start("node", "publisher", site.url, namespace, "in", 1, 1)
        publisher.go()
        publisher.result()
        target = ("scripts.benchmarks.messages:app", "--type", "sink")
        command = (
            "-P",
            "-m",
            "callboard",
            "worker",
            *target,
            "--url",
            site.url,
            "--namespace",
            namespace,
        )
        began = time.time()
        process = subprocess.Popen((sys.executable, *command), cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            return site.wait_done(namespace, {"sink": 1}) - began
        finally:
            process.terminate()
            process.wait()


def _raw(site: Site) -> float:
    with site.fresh():
        site.redis.xgroup_create("stream", "group", id="0", mkstream=True)
        site.redis.xadd("stream", {"d": msgpack.packb(small(1).model_dump())})
        began = time.time()
        process = subprocess.Popen((sys.executable, "-P", str(RAW), site.url, "stream"), cwd=ROOT)
        try:
            while site.redis.xinfo_groups("stream")[0]["entries-read"] != 1 or _is_pending(site):
                if time.time() > began + PATIENCE:
                    raise RuntimeError(f"the yardstick took no message in {PATIENCE:g} s")
                time.sleep(0.002)
            return time.time() - began
        finally:
            process.wait()


def _is_pending(site: Site) -> bool:
    return bool(site.redis.xpending("stream", "group")["pending"])
