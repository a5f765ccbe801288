"""Agents that handle messages, the runtime they live in, and the App that declares them.

Names and behaviour are those of AutoGen's core where it has them. Everything that needs the Redis half,
pydantic or asyncio is loaded when it is first used.
"""

from __future__ import annotations

import lazy_loader

if __name__ != "callboard":
    raise ImportError(
        "this folder is the source of `callboard`: import that, so that nothing is loaded twice"
    )

# Names and where they live: __init__.pyi.
_named, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name != "__version__":
        return _named(name)
    from importlib.metadata import PackageNotFoundError, version  # 10 ms that most programs never need

    try:
        return version("callboard")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0+unknown"
