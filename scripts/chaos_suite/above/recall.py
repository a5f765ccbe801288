"""A memory service. Its index is written often, so that a kill finds it half written."""

from __future__ import annotations

import os
from pathlib import Path

from callboard import App
from callboard.memory import HashingEmbedder
from callboard.memory.chroma_collection import INDEX
from callboard.memory_service import memory_service

STORE = "CHAOS_MEMORY"
AGENT = "witness"
SYNC_EVERY = 20  # changes after which Chroma writes its index to files

app = App("recall")
if STORE in os.environ:
    INDEX["sync_threshold"] = SYNC_EVERY
memory_service(app, Path(os.environ.get(STORE, "unused")), embedder=HashingEmbedder())


def fact(number: int) -> str:
    """The text of a memory."""
    return f"fact {number}: {number * 7919 % 10007} apples weigh {number * 104729 % 99991} grams"
