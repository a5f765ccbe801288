"""Conversations and long-term memory: LLM messages, model contexts, stores, embedders and documents.

This package knows nothing of `callboard` but its `foundation`. Everything is loaded when it is first used: numpy, chromadb
and the embedding models are optional, and slow to import.
"""

from __future__ import annotations

import lazy_loader

if __name__ != "callboard.memory":
    raise ImportError(
        "this folder is the source of `callboard.memory`: import that, so that nothing is loaded twice"
    )

# Names and where they live: __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
