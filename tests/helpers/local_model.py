"""A small real model behind llama.cpp's server, where `scripts/bench models` has installed it: SmolLM2 135M, on the CPU."""

from __future__ import annotations

from scripts.benchmarks.small_models import SMOLLM2, SmallModel, is_installed


def missing() -> str:
    """Why there is no model here, "" when there is one."""
    return (
        ""
        if is_installed(SMOLLM2)
        else "no small local model: scripts/bench models --model SmolLM2-135M installs it"
    )


def local_model() -> SmallModel:
    """The server's process, a context manager; its `url` is the base_url for clients."""
    return SmallModel(SMOLLM2)
