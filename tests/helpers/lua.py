"""Lua as servers have it, without one."""

from __future__ import annotations

import importlib


def compile_lua(text: str) -> None:
    """Raises ValueError with Lua's own words when it can't be compiled."""
    lua = importlib.import_module("lupa.lua51")
    try:
        lua.LuaRuntime().compile(text)
    except lua.LuaSyntaxError as error:
        raise ValueError(str(error)) from error
