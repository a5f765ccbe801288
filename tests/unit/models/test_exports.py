"""The names that the packages offer, and the packages that importing them does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import callboard.models

HEAVY = ("openai", "chromadb", "torch", "transformers", "sentence_transformers", "mcp", "numpy", "redis")


def test_the_names_of_autogen_core_models_are_there() -> None:
    names = """AssistantMessage ChatCompletionClient ChatCompletionTokenLogprob CreateResult FinishReasons
        FunctionExecutionResult FunctionExecutionResultMessage LLMMessage ModelFamily ModelInfo RequestUsage
        SystemMessage TopLogprob UserMessage validate_model_info"""
    assert set(names.split()) <= set(callboard.models.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"No callboard.models attribute Modell"):
        callboard.models.Modell  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import callboard, callboard.memory",
        "import callboard.runtime.runtime, callboard.models, callboard.memory.contexts",
        "import callboard.models.ollama",
        "import callboard.models; [getattr(callboard.models, name) for name in callboard.models.__all__]",
    ],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    shown = f"import sys; {code}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
