"""AG2's two kinds of conversable agent, the assistant and the proxy of a person, and the update of a system message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .context_variables import ContextStr
from .conversable import ConversableAgent, HumanInputMode
from .errors import GroupChatDeclarationError
from .events import value_of
from .messages import Message
from .model import ModelConfig

TASK: Final = (
    "You are a helpful AI assistant. Solve the task step by step, and say how you found the answer. Use the functions "
    "that you have where they help. When the task is solved, end your answer with TERMINATE."
)
ASSISTANT_ABOUT: Final = "An assistant that answers questions, and solves tasks step by step."


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
        AgentSettingError, GroupChatDeclarationError: See ConversableAgent.
    """

    DEFAULT_SYSTEM_MESSAGE: Final = TASK
    DEFAULT_DESCRIPTION: Final = ASSISTANT_ABOUT

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
            description = ASSISTANT_ABOUT
        super().__init__(
            name,
            system_message,
            human_input_mode=human_input_mode,
            llm_config=llm_config,
            description=description,
            **options,
        )


PROXY_ABOUT: Final[Mapping[HumanInputMode, str]] = {
    "ALWAYS": "A person who can answer questions about the task.",
    "TERMINATE": "Executes functions, and asks a person at the end.",
    "NEVER": "Does nothing but execute functions.",
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
        AgentSettingError, GroupChatDeclarationError: See ConversableAgent.
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
            description=PROXY_ABOUT.get(human_input_mode) if description is None else description,
            **options,
        )


@dataclass(frozen=True)
class UpdateSystemMessage:
    """A new system message before each answer.

    Args:
        content_updater: A text with context variables in braces, or a function of the agent and the messages, which may be
            async.

    Raises:
        GroupChatDeclarationError: It is neither (a ValueError).
    """

    content_updater: str | Callable[..., Any]

    def __post_init__(self) -> None:
        if not isinstance(self.content_updater, str) and not callable(self.content_updater):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GroupChatDeclarationError("UpdateSystemMessage is made of a text, or of a function.")

    async def __call__(self, agent: ConversableAgent, messages: Sequence[Message]) -> None:
        """Tell the agent's model something else.

        Raises:
            GroupChatDeclarationError: The function returned no text (a ValueError).
        """
        given = self.content_updater
        if isinstance(given, str):
            agent.system_message = ContextStr(given).format(agent.context_variables)
        else:
            text = await value_of(given(agent, messages))
            if not isinstance(text, str):
                raise GroupChatDeclarationError(
                    f"The function of an UpdateSystemMessage returns a text, and no {type(text).__name__}."
                )
            agent.system_message = text


def register_function(
    f: Callable[..., Any],
    *,
    caller: ConversableAgent,
    executor: ConversableAgent,
    name: str | None = None,
    description: str,
) -> None:
    """Let one agent's model call a function, and another agent execute it.

    Args:
        f: The function.
        caller: Its model may call it.
        executor: It executes the calls.
        name: By which the model calls it; None: the function's name.
        description: What it is for, as the model reads it.
    """
    caller.register_for_llm(name=name, description=description)(f)
    executor.register_for_execution(name)(f)
