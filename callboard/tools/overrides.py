"""Other names and descriptions for tools of a workbench."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import BaseModel, ConfigDict

from .errors import ToolConfigError, UnknownToolError
from .schema import ToolSchema


class ToolOverride(BaseModel):
    """A name or description that models are shown instead of the tool's own.

    Attributes:
        name: Another name; None: its own.
        description: Another description; None: its own.
    """

    model_config = ConfigDict(frozen=True)

    name: str | None = None
    description: str | None = None


class Overrides:
    """The overrides of one workbench.

    Args:
        overrides: By the tool's own name.

    Raises:
        ToolConfigError: Two tools would have one name (a ValueError).
    """

    def __init__(self, overrides: Mapping[str, ToolOverride] | None = None) -> None:
        self._overrides = dict(overrides or {})
        self._own_names: dict[str, str] = {}
        for own, override in self._overrides.items():
            if override.name is None or override.name == own:
                continue
            other = self._own_names.setdefault(override.name, own)
            if other != own:
                raise ToolConfigError(
                    f"Tool override of {own!r}",
                    f"the name {override.name!r} is used by multiple tools: {other}, {own}",
                )

    @property
    def given(self) -> dict[str, ToolOverride]:
        """By the tools' own names."""
        return dict(self._overrides)

    def check(self, names: Collection[str]) -> None:
        """Compare with the tools that there are.

        Args:
            names: Their own names.

        Raises:
            UnknownToolError: There is no tool of a name that an override is for (a LookupError).
            ToolConfigError: A tool would be shown by the name of another (a ValueError).
        """
        for own in self._overrides:
            if own not in names:
                raise UnknownToolError(own, list(names))
        shown: set[str] = set()
        for own in names:
            name = self.shown_name(own)
            if name in shown:
                raise ToolConfigError(
                    f"Tool override of {own!r}", f"the name {name!r} conflicts with an existing tool"
                )
            shown.add(name)

    def own_name(self, shown: str) -> str:
        """The tool's own name for the one that it is called by."""
        return self._own_names.get(shown, shown)

    def shown_name(self, own: str) -> str:
        """The name that a tool is shown by."""
        override = self._overrides.get(own)
        return own if override is None or override.name is None else override.name

    def shown(self, schema: ToolSchema) -> ToolSchema:
        """A schema as the model is to see it."""
        override = self._overrides.get(schema["name"])
        if override is None:
            return schema
        changed = schema.copy()
        changed["name"] = self.shown_name(schema["name"])
        if override.description is not None:
            changed["description"] = override.description
        return changed
