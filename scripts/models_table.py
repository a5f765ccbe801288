"""Compares the table of models with a published one, and takes over what that one knows.

    python -m scripts.models_table SOURCE                       what SOURCE says otherwise than our table
    python -m scripts.models_table SOURCE --write --named TEXT  the same, written into the table
    python -m scripts.models_table SOURCE --write --named TEXT --add NAME --add NAME    and further models

SOURCE is a file or a URL with JSON in one of three forms: models.dev's `api.json`, LiteLLM's
`model_prices_and_context_window.json`, or the `/v1/models` of a router or a server (OpenRouter's and vLLM's say the
context as well). TEXT goes into the table as its source, with its date; `--of` is the day that the source is of.

A table of your own, for CALLBOARD_MODELS, is made in the same way: `--table my_models.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from callboard.models.info import NAMES, TABLE, without_version

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """What a source says of a model; what it does not say is in none of the fields.

    Attributes:
        context: tokens of a request and its answer together.
        prompt: tokens of a request, where only that is said.
        can: what it can or can't, by the words of our table.
    """

    context: int | None = None
    prompt: int | None = None
    can: Mapping[str, bool] = field(default_factory=dict)


def of_models_dev(data: Mapping[str, Any]) -> Iterator[tuple[str, Found]]:
    """The models in models.dev's `api.json`: by provider."""
    for provider in data.values():
        for name, model in provider["models"].items():
            can = {"tools": model.get("tool_call"), "schema": model.get("structured_output")}
            if inputs := model.get("modalities", {}).get("input"):
                can["vision"] = "image" in inputs
            yield name, Found(model.get("limit", {}).get("context"), can=_said(can))


def of_litellm(data: Mapping[str, Any]) -> Iterator[tuple[str, Found]]:
    """The models in LiteLLM's file. A flag that is missing says nothing there."""
    words = {"tools": "function_calling", "vision": "vision", "schema": "response_schema"}
    for name, model in data.items():
        if model.get("mode") == "chat":
            can = {word: model.get(f"supports_{flag}") for word, flag in words.items()}
            yield name, Found(prompt=model.get("max_input_tokens"), can=_said(can))


def of_list(data: Mapping[str, Any]) -> Iterator[tuple[str, Found]]:
    """The models of a `/v1/models`."""
    for model in data["data"]:
        can: dict[str, Any] = {}
        if inputs := model.get("architecture", {}).get("input_modalities"):
            can["vision"] = "image" in inputs
        if takes := model.get("supported_parameters"):
            can |= {"tools": "tools" in takes, "json": "response_format" in takes}
            can["schema"] = "structured_outputs" in takes
        yield model["id"], Found(model.get("context_length") or model.get("max_model_len"), can=_said(can))


def _said(can: Mapping[str, Any]) -> dict[str, bool]:
    return {word: bool(value) for word, value in can.items() if value is not None}


def read(text: str) -> dict[str, Found]:
    """The models of a source, by their names without a vendor's in front. The first of a name counts.

    Raises:
        ValueError: it is in none of the three forms.
    """
    data = json.loads(text)
    try:
        found: dict[str, Found] = {}
        for name, model in _form(data)(data):
            found.setdefault(name, model)
            found.setdefault(name.rpartition("/")[2], model)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"it is neither models.dev's api.json nor LiteLLM's table nor a /v1/models ({error!r})"
        ) from error
    return found


def _form(data: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Iterator[tuple[str, Found]]]:
    if isinstance(data.get("data"), list):
        return of_list
    return of_models_dev if all("models" in provider for provider in data.values()) else of_litellm


def updated(row: Row, found: Found) -> Row:
    """A row with what a source says; what it does not say stays."""
    had = row["can"].split()
    can = [word for word in NAMES if found.can.get(word, word in had)]
    return {**row, "context": found.context or row["context"], "can": " ".join(can)}


def new_row(found: Found) -> Row:
    """The row of a model that the table does not have."""
    context = found.context or found.prompt
    if context is None:
        raise ValueError("the source does not say how long its context is")
    return updated({"family": "unknown", "context": context, "can": ""}, found)


def changes(rows: Mapping[str, Row], found: Mapping[str, Found], added: Sequence[str] = ()) -> dict[str, Row]:
    """The rows that are other ones by a source, and those to be added.

    Raises:
        ValueError: the source does not have a model that is to be added.
    """
    other: dict[str, Row] = {}
    for name, row in rows.items():
        model = found.get(name) or found.get(without_version(name))
        if model is not None and (new := updated(row, model)) != row:
            other[name] = new
    for name in added:
        if name not in found:
            raise ValueError(f"the source has no model {name!r}")
        if name not in rows:
            other[name] = new_row(found[name])
    return other


def written(table: Mapping[str, Any], rows: Mapping[str, Row], of: str, source: str) -> str:
    """A table as text, one row in a line."""
    head = {"of": of, "source": source}
    lines = [
        f"  {json.dumps(name)}: {json.dumps(value)},"
        for name, value in ({**table, **head}).items()
        if name != "models"
    ]
    models = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    return "\n".join(["{", *lines, '  "models": {', models, "  }", "}", ""])


FORMS: Final = ("http://", "https://")


def fetched(source: str) -> str:
    """The text of a file or a URL."""
    if source.startswith(FORMS):
        with urlopen(source, timeout=60) as answer:  # noqa: S310 - it is http
            text: str = answer.read().decode()
            return text
    return Path(source).read_text("utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what differs, and writes it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--named", help="what the table says of its source")
    parser.add_argument("--of", default=datetime.now(UTC).date().isoformat(), help="the day of the source")
    parser.add_argument("--add", action="append", default=[], metavar="NAME")
    parser.add_argument("--table", type=Path, default=TABLE)
    given = parser.parse_args(arguments)
    if given.write and not given.named:
        parser.error("--write needs --named: the table says where its rows come from")
    table = json.loads(given.table.read_text("utf-8")) if given.table.exists() else {"models": {}}
    try:
        other = changes(table["models"], read(fetched(given.source)), given.add)
    except (ValueError, OSError) as error:
        parser.error(f"{given.source}: {error}")
    for name, row in other.items():
        sys.stdout.write(f"{name}: {json.dumps(table['models'].get(name))} -> {json.dumps(row)}\n")
    sys.stdout.write(f"{len(other)} of {len(table['models'])} rows differ\n")
    if given.write:
        text = written(table, {**table["models"], **other}, given.of, given.named)
        given.table.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
