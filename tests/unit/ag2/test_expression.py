"""Expressions of context variables, and texts with them."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.ag2 import ContextExpression, ExpressionError
from callboard.groupchat import ContextStr

VARIABLES: dict[str, Any] = {
    "yes": True,
    "no": False,
    "n": 3,
    "text": "it's",
    "orders": [1, 2],
    "none": None,
    "my name": "x",
    "evil": "' or True or '",
    "names": "${yes}",
    "huge": 10**400,
}


@pytest.mark.parametrize(
    ("expression", "is_true"),
    [
        ("${yes}", True),
        ("not ${yes}", False),
        ("!${no}", True),
        ("! (${no} | ${yes})", False),
        ("${yes} and ${no} or ${yes}", True),
        ("${yes} & !${no}", True),
        ("${no}|${no}", False),
        ("${n} > 2 & ${n} <= 3", True),
        ("1 < ${n} < 3", False),
        ("${n} != 3", False),
        ("${n} == -3", False),
        ("len(${orders}) == 2", True),
        ("len(${text}) > 10", False),
        ("len(${n}) == 0", True),  # what has no length
        ("${orders}", True),
        ("${none} == None", True),
        ('${text} == "it\'s"', True),
        ("${text} == 'a & b | !'", False),
        ("'${yes}' == ${names}", True),  # a text stays what it is
        (r"len('it\'s&') == 5", True),  # a quote in it as well
        ("'_variable_0' == ${text}", False),
        ("${my name} == 'x'", True),
        ("${evil} == 'a'", False),  # no value becomes a part of the expression
        ("${no} and ${n} > 'a'", False),  # what is not needed is not looked at
        ("True", True),
    ],
)
def test_what_an_expression_says(expression: str, is_true: bool) -> None:
    assert ContextExpression(expression).evaluate(VARIABLES) is is_true


@pytest.mark.parametrize(
    "expression",
    [
        "${n} + 1 > 2",
        "${n} in ${orders}",
        "${n} is None",
        "open(${text})",
        "len(${orders}, 1)",
        "len(*${orders})",
        "${orders}.clear()",
        "${orders}[0]",
        "n > 2",
        "len",
        "~${n}",
        "lambda: ${n}",
        "[${n}]",
        "f'{1}'",
        "(${a} := 1)",
        "${a} if ${b} else ${c}",
        "_variable_0 == 1",
        "${n} == _variable_0",
        "${n} == _\uff56ariable_0",
        "not " * 150 + "${n}",
        "len(" * 150 + "${n}" + ")" * 150,
    ],
)
def test_what_is_not_allowed_in_one(expression: str) -> None:
    with pytest.raises(ValueError, match="can't be") as caught:
        ContextExpression(expression)
    assert isinstance(caught.value, ExpressionError)


@pytest.mark.parametrize(
    "expression",
    [
        "${n} >",
        "",
        "${n} ${n}",
        "(${n}",
        "\0",
        "(" * 10_000 + "1" + ")" * 10_000,
        "-" * 5_000 + "1",
        "!" * 50_000 + "1",
    ],
    ids=lambda expression: expression[:10],
)
def test_what_can_not_be_read(expression: str) -> None:
    with pytest.raises(SyntaxError, match="can't be read") as caught:
        ContextExpression(expression)
    assert isinstance(caught.value, ExpressionError)


def test_a_variable_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="no context variable 'gone'") as caught:
        ContextExpression("${yes} or ${gone}").evaluate(VARIABLES)
    assert isinstance(caught.value, ExpressionError)


def test_values_that_can_not_be_compared() -> None:
    with pytest.raises(ExpressionError, match="not supported"):
        ContextExpression("${text} > 3").evaluate(VARIABLES)


def test_values_whose_comparison_raises_anything() -> None:
    class Odd:
        def __bool__(self) -> bool:
            raise LookupError("neither true nor false")  # as arrays and tables do

    with pytest.raises(ExpressionError, match="neither true nor false"):
        ContextExpression("not ${odd}").evaluate({"odd": Odd()})


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{n} of {text}", "3 of it's"),
        ("{n:.2f}", "3.00"),
        ("{gone} {n}", "{gone} 3"),
        ("{text:.2f}", "{text:.2f}"),
        ("{huge:.2f}", "{huge:.2f}"),
        ("{n.__class__} {orders[0]}", "{n.__class__} {orders[0]}"),
        ("{names}", "${yes}"),
        ('{{"n": {n}, "of": {{"{{n}}": 1}}}}', '{"n": 3, "of": {"{n}": 1}}'),
        ('{"n": {"of": {n}}}', '{"n": {"of": 3}}'),
    ],
)
def test_a_text_with_variables(template: str, text: str) -> None:
    assert ContextStr(template).format(VARIABLES) == text
