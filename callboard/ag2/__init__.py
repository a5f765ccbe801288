"""AG2's names in one place: its group chats, and its patterns, whose agents hand over to each other by rules.

Everything is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import lazy_loader

# Names and where they live: __init__.pyi.
_own, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Agents and group chats do without patterns. A program of AG2 finds them here too, and needs one place to import from.
OF_GROUP_CHATS: Final = (
    "AgentNameConflictError",
    "AssistantAgent",
    "ChatResult",
    "ContextStr",
    "ContextVariables",
    "ConversableAgent",
    "GroupChat",
    "GroupChatDeclarationError",
    "GroupChatManager",
    "IOStream",
    "MessageHistoryLimiter",
    "NoEligibleSpeakerError",
    "TransformMessages",
    "UndefinedNextAgentError",
    "UpdateSystemMessage",
    "UserProxyAgent",
)
__all__.extend(OF_GROUP_CHATS)


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    return (
        getattr(importlib.import_module("callboard.groupchat"), name)
        if name in OF_GROUP_CHATS
        else _own(name)
    )
