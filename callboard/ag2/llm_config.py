"""Configurations of models with AG2's name: entries, and options for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from callboard.foundation.texts import read_json
from callboard.groupchat.errors import GroupChatDeclarationError
from callboard.groupchat.model import OFFERED, SHARED

IGNORED: Final = ("cache_seed", "check_every_ms", "allow_format_str_template", "routing_method")
OPTIONS: Final = (*SHARED, *OFFERED, *IGNORED)
HIDDEN: Final = ("key", "token", "secret", "password", "authorization")
STARS: Final = "**********"


class LLMConfig(Mapping[str, Any]):
    """A configuration of models: entries, and options for all of them. It can be read like AG2's dictionary.

    An agent asks the first entry. In AG2 the next one is asked when one fails; here a client tries again by itself (see
    `ModelRetries`), so that what is written down of a run says which model has answered.

    Args:
        *entries: Each has a "model", and may have "api_key", "base_url", "api_type", and other options of the OpenAI client.
        **options: For all entries: temperature, top_p, max_tokens, seed, timeout, response_format, parallel_tool_calls, ...
            With "model" among them, and no entry, the others are those of the only entry: `LLMConfig(model="gpt-4o-mini")`.

    Raises:
        GroupChatDeclarationError: No entry, one without a model, or an unknown option (a ValueError).
    """

    def __init__(self, *entries: Mapping[str, Any], **options: Any) -> None:
        listed = options.pop("config_list", ())
        entries += (listed,) if isinstance(listed, Mapping) else tuple(listed)
        if not entries and "model" in options:
            names = [name for name in options if name not in OPTIONS]
            entries = ({name: options.pop(name) for name in names},)
        if not entries:
            raise GroupChatDeclarationError("An LLMConfig needs an entry, such as {'model': 'gpt-4o-mini'}.")
        for entry in entries:
            if not entry.get("model"):
                raise GroupChatDeclarationError("An entry of an LLMConfig names no model.")
        for name in options:
            if name not in OPTIONS:
                raise GroupChatDeclarationError(
                    f"An LLMConfig has no option {name!r}; there are {', '.join(OPTIONS)}. What is for one model stands in "
                    "its entry."
                )
        given = {name: value for name, value in options.items() if value is not None}
        self._values: dict[str, Any] = {**given, "config_list": [dict(entry) for entry in entries]}

    @classmethod
    def from_json(
        cls,
        *,
        env: str | None = None,
        path: str | Path | None = None,
        file_location: str | Path | None = None,
        filter_dict: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> LLMConfig:
        """The entries of a JSON text, which is a list of them.

        Args:
            env: The environment variable that has the text, or the name of the file.
            path: The file. Give one of both.
            file_location: The folder of the file.
            filter_dict: Which entries count, see `where`.
            **options: See the class.

        Raises:
            GroupChatDeclarationError: Both, none, no such variable or file, no such text, or nothing that counts (a
                ValueError).
        """
        if (env is None) == (path is None):
            raise GroupChatDeclarationError("Give env or path.")
        text = "" if env is None else _value_of(env)
        if not text.lstrip().startswith(("[", "{")):
            text = _text_of(Path(file_location or "", path or text))
        return cls(*_entries_in(text, env or str(path)), **options).where(**(filter_dict or {}))

    @property
    def config_list(self) -> list[dict[str, Any]]:
        """The entries."""
        entries: list[dict[str, Any]] = self._values["config_list"]
        return entries

    def where(self, *, exclude: bool = False, **wanted: Any) -> LLMConfig:
        """A configuration with some of the entries.

        Args:
            exclude: Whether those are left out that match.
            **wanted: An entry matches if each of these keys has the value, or one of the values of a list. Where the entry
                has a list itself, such as "tags", one of its items is enough. None stands for a key that is not there.

        Raises:
            GroupChatDeclarationError: No entry is left (a ValueError).
        """
        left = [entry for entry in self.config_list if not wanted or _matches(entry, wanted) is not exclude]
        if not left:
            raise GroupChatDeclarationError(
                f"No entry of the LLMConfig is left by {_without_secrets(wanted)!r}."
            )
        return LLMConfig(**{**self._values, "config_list": left})

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in _without_secrets(self._values).items())
        return f"LLMConfig({shown})"


def _value_of(variable: str) -> str:
    if not (value := os.environ.get(variable)):
        raise GroupChatDeclarationError(f"The environment variable {variable} is not set.")
    return value


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GroupChatDeclarationError(f"{path} can't be read: {error}") from error


def _entries_in(text: str, source: str) -> Sequence[Mapping[str, Any]]:
    try:
        found = read_json(text)
    except ValueError as error:
        # Not what stands there: there are keys in it.
        raise GroupChatDeclarationError(
            f"{source} has no JSON text with the entries of an LLMConfig."
        ) from error
    entries = [found] if isinstance(found, dict) else found
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise GroupChatDeclarationError(
            f'{source} has no list of entries, such as [{{"model": "gpt-4o-mini"}}].'
        )
    return entries


def _matches(entry: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_is_one_of(entry.get(key), _listed(value)) for key, value in wanted.items())


def _is_one_of(value: Any, accepted: list[Any]) -> bool:
    if isinstance(value, list):
        return any(each in accepted for each in value)
    return value in accepted


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: STARS if str(key).lower().endswith(HIDDEN) else _without_secrets(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return value
