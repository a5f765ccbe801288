"""An agent that solves tasks with its model, under AG2's name."""

from __future__ import annotations

from typing import Any, Final

from .conversable import ConversableAgent
from .model_client import ModelConfig
from .peer import HumanInputMode

TASK: Final = (
    "You are a helpful AI assistant. Solve the task step by step, and say how you found the answer. Use the functions "
    "that you have where they help. When the task is solved, end your answer with TERMINATE."
)
ABOUT: Final = "An assistant that answers questions, and solves tasks step by step."


class AssistantAgent(ConversableAgent):
    """A ConversableAgent that is told to solve a task, and asks no person.

    In AG2 it is told to write code that the other agent runs. No ConversableAgent runs code here, so it is not.

    Args:
        name: A Python identifier.
        system_message: What its model is told first.
        llm_config: Its model: a client, an LLMConfig, or AG2's dictionary.
        human_input_mode: See ConversableAgent.
        description: What it can do, for those who choose who speaks; None: the system message, or what is true of the one
            that it has by itself.
        **options: See ConversableAgent.

    Raises:
        AgentNameError, GroupChatDeclarationError: See ConversableAgent.
    """

    DEFAULT_SYSTEM_MESSAGE: Final = TASK
    DEFAULT_DESCRIPTION: Final = ABOUT

    def __init__(
        self,
        name: str,
        system_message: str | None = TASK,
        llm_config: ModelConfig = None,
        *,
        human_input_mode: HumanInputMode = "NEVER",
        description: str | None = None,
        **options: Any,
    ) -> None:
        if description is None and system_message == TASK:
            description = ABOUT
        super().__init__(
            name,
            system_message,
            human_input_mode=human_input_mode,
            llm_config=llm_config,
            description=description,
            **options,
        )
