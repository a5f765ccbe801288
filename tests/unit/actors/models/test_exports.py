"""What the packages offer, and what importing them does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import actors.models

HEAVY = ("openai", "chromadb", "torch", "transformers", "sentence_transformers", "mcp", "numpy", "redis")


def test_all_names_everything_and_everything_is_there() -> None:
    assert sorted(actors.models.__all__) == sorted(actors.models._HOME)
    for name in actors.models.__all__:
        assert getattr(actors.models, name) is not None
    assert set(actors.models.__all__) <= set(dir(actors.models))


def test_the_names_of_autogen_core_models_are_there() -> None:
    names = """AssistantMessage ChatCompletionClient ChatCompletionTokenLogprob CreateResult FinishReasons
        FunctionExecutionResult FunctionExecutionResultMessage LLMMessage ModelFamily ModelInfo RequestUsage
        SystemMessage TopLogprob UserMessage validate_model_info"""
    assert set(names.split()) <= set(actors.models.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'actors\.models' has no attribute 'Modell'"):
        actors.models.Modell  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import actors, memory",
        "import actors.runtime, actors.models, memory.contexts, memory.summarising",
        "import actors.models; [getattr(actors.models, name) for name in actors.models.__all__]",
    ],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    shown = f"import sys; {code}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
