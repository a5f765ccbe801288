"""An agent that speaks for a person, under AG2's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .conversable import ConversableAgent
from .model_client import ModelConfig
from .peer import HumanInputMode

ABOUT: Final[Mapping[HumanInputMode, str]] = {
    "ALWAYS": "A person who can answer questions about the task.",
    "TERMINATE": "Somebody who executes functions, and asks a person at the end.",
    "NEVER": "Somebody who does nothing but execute functions.",
}


class UserProxyAgent(ConversableAgent):
    """A ConversableAgent that asks a person whenever it gets a message, and has no model.

    In AG2 it runs the code blocks that it is sent, unless `code_execution_config` is False. Here it never does: let a
    `CodeExecutorAgent` take part in the chat.

    Args:
        name: A Python identifier.
        human_input_mode: See ConversableAgent.
        llm_config: Its model; usually it has none.
        system_message: What its model is told first, if it has one.
        description: What it can do, for those who choose who speaks; None: as its `human_input_mode` says.
        **options: See ConversableAgent.

    Raises:
        AgentNameError, GroupChatDeclarationError: See ConversableAgent.
    """

    def __init__(
        self,
        name: str,
        *,
        human_input_mode: HumanInputMode = "ALWAYS",
        llm_config: ModelConfig = False,
        system_message: str | None = "",
        description: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            name,
            system_message,
            human_input_mode=human_input_mode,
            llm_config=llm_config,
            description=ABOUT.get(human_input_mode) if description is None else description,
            **options,
        )
