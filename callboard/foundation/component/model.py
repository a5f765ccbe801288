"""A component as plain data."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

ComponentType: TypeAlias = (
    Literal["model", "agent", "tool", "termination", "token_provider", "workbench"] | str
)
"""What a component is; any other text for kinds of one's own."""


class ComponentModel(BaseModel):
    """A component as plain data, with AutoGen's fields: `dump_component` makes it, and `load_component` takes it.

    Attributes:
        provider: What makes the component, such as "callboard.models.OpenAIChatCompletionClient". AutoGen's names are
            understood, too.
        component_type: What it is; None: what the provider says.
        version: Version of the specification, as AutoGen writes it; not used.
        component_version: Version of the config; None: the provider's own.
        description: What it is for.
        label: Its name for people.
        config: The arguments of the provider, checked by its schema.
    """

    provider: str
    component_type: ComponentType | None = None
    version: int | None = None
    component_version: int | None = None
    description: str | None = None
    label: str | None = None
    config: dict[str, Any]
