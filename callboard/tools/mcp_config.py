"""An McpWorkbench as plain data, with the fields that AutoGen writes, and what a config may start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from callboard.foundation.component import (
    ComponentNotAllowedError,
    NotDumpableError,
    harmless,
    is_secret_name,
    permissions,
)

from .mcp_params import McpServerParams, StdioServerParams
from .overrides import ToolOverride
from .sizes import DEFAULT_LIMITS, ResultLimits

NAME: Final = "McpWorkbench"


class McpWorkbenchConfig(BaseModel):
    """An McpWorkbench as plain data; its fields are the arguments of McpWorkbench.

    Attributes:
        env_names: variables of the environment that the server gets where the config is loaded: those whose values are
            secrets are in no dump.
        model_client: AutoGen's, by which a server may ask a model; we have nothing like it, and refuse it.
    """

    model_config = ConfigDict(protected_namespaces=())

    server_params: Annotated[McpServerParams, Field(discriminator="type")]
    tool_overrides: dict[str, ToolOverride] = Field(default_factory=dict)
    connect_timeout: float = 30.0
    limits: ResultLimits = DEFAULT_LIMITS
    env_names: list[str] = Field(default_factory=list)
    model_client: dict[str, Any] | None = None

    @field_validator("model_client")
    @classmethod
    def _no_sampling(cls, given: object) -> None:
        if given is not None:
            raise ValueError("servers can't ask a model here: leave it out")


def written(
    params: McpServerParams,
    overrides: Mapping[str, ToolOverride],
    connect_timeout: float,
    limits: ResultLimits,
) -> McpWorkbenchConfig:
    """A workbench as plain data, without secrets.

    Raises:
        NotDumpableError: an argument of the program is a secret by its name (a TypeError).
    """
    names: list[str] = []
    if isinstance(params, StdioServerParams):
        secret = next((one for one in params.args if one.startswith("-") and is_secret_name(one)), None)
        if secret is not None:
            option = secret.partition("=")[0]
            raise NotDumpableError(NAME, f"{option} may be a secret: give it to the server in env")
        names = [name for name in params.env or () if is_secret_name(name)]
        params = params.model_copy(update={"env": harmless(params.env)})
    else:
        params = params.model_copy(update={"headers": harmless(params.headers)})
    return McpWorkbenchConfig(
        server_params=params,
        tool_overrides=dict(overrides),
        connect_timeout=connect_timeout,
        limits=limits,
        env_names=names,
    )


def params_of(config: McpWorkbenchConfig) -> McpServerParams:
    """The server that a config describes.

    Raises:
        ComponentNotAllowedError: it is a program that the caller did not allow (a ValueError).
    """
    params = config.server_params
    if not isinstance(params, StdioServerParams):
        return params
    if params.command not in permissions().commands:
        raise ComponentNotAllowedError(f"starting the program {params.command}", "commands", params.command)
    found = {name: os.environ[name] for name in config.env_names if name in os.environ}
    return params.model_copy(update={"env": {**(params.env or {}), **found} or None})
