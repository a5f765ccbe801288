"""How large results may be, whatever kind of tool they come from."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.broker.settings import BrokerSettings
from callboard.errors import SettingValueError
from callboard.memory.llm_messages import Image
from callboard.tools import (
    BaseStreamTool,
    DynamicWorkbench,
    FunctionTool,
    ImageResultContent,
    LangChainToolAdapter,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
)
from callboard.tools.workbench import DEFAULT_LIMITS, ResultLimits

SMALL = ResultLimits(max_text=200, max_image=100)


def text(content: str) -> TextResultContent:
    return TextResultContent(content=content)


def image(size: int) -> ImageResultContent:
    return ImageResultContent(content=Image.from_bytes(os.urandom(size), "image/png"))


def result(*parts: TextResultContent | ImageResultContent) -> ToolResult:
    return ToolResult(name="t", result=list(parts))


def test_what_fits_stays_as_it_is() -> None:
    made = result(text("12345"), image(60), text("67890"), image(40))
    assert SMALL.within(made) is made


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (["x" * 250], f"{'x' * 100}... [cut here: 150 of 250 characters are missing]"),
        (
            ["a" * 70, "b" * 50, "c" * 100],
            f"{'a' * 70}\n{'b' * 30}... [cut here: 120 of 150 characters are missing]",
        ),
        (["x" * 100, "y" * 200], f"{'x' * 100}\n[cut here: 200 of 200 characters are missing]"),
        (["日本" * 200], f"{'日本' * 50}... [cut here: 300 of 400 characters are missing]"),
    ],
)
def test_long_texts_are_cut_and_the_rest_is_counted(parts: list[str], shown: str) -> None:
    cut = SMALL.within(result(*map(text, parts)))
    assert cut.to_text() == shown
    assert SMALL.within(cut) is cut


def test_large_images_are_described_and_others_kept() -> None:
    small = image(80)
    cut = SMALL.within(result(image(120), small, image(21), text("end")))
    assert cut.result[1] == small
    assert cut.to_text(replace_image="[kept]").splitlines() == [
        "[Image left out: image/png, 120 bytes; those of one result may have 100 bytes together]",
        "[kept]",
        "[Image left out: image/png, 21 bytes; those of one result may have 100 bytes together]",
        "end",
    ]


def test_long_addresses_count_as_text() -> None:
    far = ImageResultContent(content=Image(url=f"https://a/{'x' * 250}"))
    assert SMALL.within(result(far)).to_text() == "[cut here: 260 of 260 characters are missing]"


def test_errors_stay_errors() -> None:
    failed = ToolResult(name="t", result=[text("x" * 2000)], is_error=True)
    assert SMALL.within(failed).is_error


def test_with_the_defaults_a_result_fits_into_a_message() -> None:
    worst = DEFAULT_LIMITS.within(result(text("\0" * 10**6), image(500_000)))
    assert len(worst.model_dump_json()) < BrokerSettings().max_payload


@pytest.mark.parametrize("wrong", [{"max_text": 199}, {"max_image": -1}])
def test_limits_are_positive(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingValueError):
        ResultLimits(**wrong)


class Nothing(BaseModel):
    pass


class Steps(BaseStreamTool[Nothing, Any, Any]):
    def __init__(self) -> None:
        super().__init__(Nothing, object, "large", "Yields.")

    async def run_stream(
        self, args: Nothing, cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        yield "y" * 500
        yield "x" * 500


class LangChain:
    name = "large"
    description = "Large."
    args_schema = None

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        return "x" * 500


CUT = f"{'x' * 100}... [cut here: 400 of 500 characters are missing]"


async def test_every_workbench_cuts_what_its_tools_return() -> None:
    large = FunctionTool(lambda: "x" * 500, "Large.", name="large")
    made = FunctionTool(lambda: result(text("x" * 500)), "Large.", name="large")
    for workbench in (
        StaticWorkbench([large], limits=SMALL),
        StaticWorkbench([made], limits=SMALL),
        DynamicWorkbench([large], limits=SMALL),
    ):
        assert (await workbench.call_tool("large")).to_text() == CUT
    adapted = StaticWorkbench([LangChainToolAdapter(LangChain())], limits=SMALL)
    assert (await adapted.call_tool("large", {"input": "x"})).to_text() == CUT
    *_, last = [
        item async for item in StaticStreamWorkbench([Steps()], limits=SMALL).call_tool_stream("large")
    ]
    assert last.to_text() == CUT
