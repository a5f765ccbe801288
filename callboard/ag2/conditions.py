"""Conditions of handoffs: expressions with context variables in them, and texts."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from unicodedata import normalize

from callboard.groupchat.context_variables import ContextStr, ContextVariables
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.errors import GroupChatError
from callboard.groupchat.messages import Message

PIECES: Final = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\$\{(?P<name>[^}]*)\}|(?P<sign>!(?!=)|&{1,2}|\|{1,2})"""
)
WORDS: Final = {"!": " not ", "&": " and ", "|": " or "}
PLACE: Final = "_variable_"
LENGTH: Final = "len"
DEEPEST: Final = 100
"""How deep an expression may be nested: far less than Python's stack has room for, wherever it is evaluated."""

ALLOWED: Final = (
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
)
COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class ExpressionError(GroupChatError, ValueError, KeyError, SyntaxError):
    """An expression can't be, or can't be evaluated.

    As in Python it is a SyntaxError where it can't be read, a KeyError where a variable is not there, and a ValueError where
    something in it is not allowed, or its values can't be compared.
    """

    template = "The expression {expression!r} {problem}."

    expression: str
    problem: str

    __str__ = GroupChatError.__str__  # KeyError's would show it in quotes


@dataclass(frozen=True)
class ContextExpression:
    """A condition on context variables, such as ``"${logged_in} and len(${orders}) > 0"``.

    It may have variables as ``${name}``, texts, numbers, True, False and None, ``not and or`` or ``! & |``, comparisons,
    ``len()``, and parentheses. It is read once, and what it may consist of is on a list; the values of variables never
    become a part of its text. In AG2 they do, and the text is evaluated as Python.

    Args:
        expression: The text.

    Raises:
        ExpressionError: It can't be read (a SyntaxError), or has something that is not on the list, such as arithmetic or
            another function (a ValueError).
    """

    expression: str
    _tree: ast.expr = field(init=False, repr=False, compare=False)
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: list[str] = []
        text = PIECES.sub(lambda piece: _as_python(piece, names), self.expression)
        # Python reads letters of other forms as the usual ones.
        if PLACE in normalize("NFKC", PIECES.sub(" ", self.expression)):
            raise self._refused(f"a bare name with {PLACE!r} is not allowed in it")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = str(error) or "it is nested too deep"
            raise ExpressionError(self.expression, f"can't be read: {problem}") from error
        self._check(tree)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_names", tuple(names))

    def __deepcopy__(self, memo: dict[int, Any]) -> ContextExpression:
        """It never changes."""
        return self

    def __str__(self) -> str:
        return f"ContextExpression('{self.expression}')"

    def evaluate(self, context_variables: Mapping[str, Any]) -> bool:
        """Whether it is true.

        Args:
            context_variables: The variables.

        Raises:
            ExpressionError: One of its variables is not there (a KeyError), or values can't be compared, such as a text with
                a number, or raise an error (a ValueError).
        """
        values = {}
        for number, name in enumerate(self._names):
            if name not in context_variables:
                raise ExpressionError(
                    self.expression, f"can't be evaluated: there is no context variable {name!r}"
                )
            values[f"{PLACE}{number}"] = context_variables[name]
        try:
            return bool(_value(self._tree, values))
        except Exception as error:  # values are of any class, and say what they like
            problem = str(error) or type(error).__name__
            raise ExpressionError(self.expression, f"can't be evaluated: {problem}") from error

    def _check(self, node: ast.AST, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise self._refused("it is nested too deep")
        match node:
            case ast.Name(id=name) if not name.startswith(PLACE):
                raise self._refused(f"{name!r} is a bare name: write ${{{name}}}")
            case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
                parts: list[ast.AST] = [argument]
            case ast.Call():
                raise self._refused("len() with one argument is the only function")
            case ast.Compare(ops=signs) if not all(type(sign) in COMPARISONS for sign in signs):
                raise self._refused("its comparisons can be == != < <= > >=")
            case ast.Compare():
                parts = [node.left, *node.comparators]
            case _ if isinstance(node, ALLOWED):
                parts = list(ast.iter_child_nodes(node))
            case _:
                raise self._refused(f"{type(node).__name__} is not allowed in it")
        for part in parts:
            self._check(part, depth + 1)

    def _refused(self, reason: str) -> ExpressionError:
        return ExpressionError(self.expression, f"can't be: {reason}")


def _as_python(piece: re.Match[str], names: list[str]) -> str:
    """A piece of the text in Python; a variable becomes a name with its number."""
    if piece["text"] is not None:
        return piece["text"]
    if piece["sign"] is not None:
        return WORDS[piece["sign"][0]]
    names.append(piece["name"])
    return f"{PLACE}{len(names) - 1}"


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a checked part."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.Call(args=[argument]):
            return _length(_value(argument, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, values)
        case ast.UnaryOp(operand=operand):
            return -_value(operand, values)
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values) for part in parts)
        case ast.Compare():
            return _compared(node, values)
        case _:
            raise AssertionError(node)


def _compared(node: ast.Compare, values: Mapping[str, Any]) -> bool:
    left = _value(node.left, values)
    for sign, part in zip(node.ops, node.comparators, strict=True):
        right = _value(part, values)
        if not COMPARISONS[type(sign)](left, right):
            return False
        left = right
    return True


def _length(value: Any) -> int:
    """The length; 0 for a value that has none, as in AG2."""
    try:
        return len(value)
    except TypeError:
        return 0


@dataclass(frozen=True)
class Known:
    """An agent's name and the context variables of its chat, where the agent itself is in another process."""

    name: str
    context_variables: ContextVariables


Knowing: TypeAlias = ConversableAgent | Known
"""Whom a condition is about."""


@runtime_checkable
class LLMCondition(Protocol):
    """A condition in words: it tells a model when it is to hand over."""

    def get_prompt(self, agent: Knowing, messages: Sequence[Message]) -> str:
        """The text for the model."""
        ...


@runtime_checkable
class ContextCondition(Protocol):
    """A condition on the context variables: whether the agent hands over."""

    def evaluate(self, context_variables: ContextVariables) -> bool:
        """Whether it is met.

        Raises:
            ExpressionError: A variable is not there (a KeyError), or values can't be compared (a ValueError). In a chat the
                condition is not met then.
        """
        ...


@runtime_checkable
class AvailableCondition(Protocol):
    """A condition of whether a handoff is there at all, asked at every turn."""

    def is_available(self, agent: Knowing, messages: Sequence[Message]) -> bool:
        """Whether it is."""
        ...


@dataclass(frozen=True)
class StringLLMCondition:
    """A fixed text.

    Args:
        prompt: When to hand over, such as "Transfer to the tech agent for technical questions."
    """

    prompt: str

    def get_prompt(self, agent: Knowing, messages: Sequence[Message]) -> str:
        """The text."""
        return self.prompt


@dataclass(frozen=True)
class ContextStrLLMCondition:
    """A text with context variables in it, filled anew at every turn.

    Args:
        context_str: The text.
    """

    context_str: ContextStr

    def get_prompt(self, agent: Knowing, messages: Sequence[Message]) -> str:
        """The text with the values as they are now."""
        return self.context_str.format(agent.context_variables)


@dataclass(frozen=True)
class StringContextCondition:
    """A condition that is met when a variable is true.

    Args:
        variable_name: Its name; without the variable it is not met.
    """

    variable_name: str

    def evaluate(self, context_variables: Mapping[str, Any]) -> bool:
        """Whether it is."""
        return bool(context_variables.get(self.variable_name, False))


@dataclass(frozen=True)
class ExpressionContextCondition:
    """A condition that is met when an expression is true.

    Args:
        expression: The expression.
    """

    expression: ContextExpression

    def evaluate(self, context_variables: Mapping[str, Any]) -> bool:
        """Whether it is; see `ContextExpression.evaluate`."""
        return self.expression.evaluate(context_variables)


@dataclass(frozen=True)
class StringAvailableCondition:
    """A handoff is there while a variable is true.

    Args:
        context_variable: Its name.
    """

    context_variable: str

    def is_available(self, agent: Knowing, messages: Sequence[Message]) -> bool:
        """Whether it is."""
        return bool(agent.context_variables.get(self.context_variable, False))


@dataclass(frozen=True)
class ExpressionAvailableCondition:
    """A handoff is there while an expression is true.

    Args:
        expression: The expression.
    """

    expression: ContextExpression

    def is_available(self, agent: Knowing, messages: Sequence[Message]) -> bool:
        """Whether it is; see `ContextExpression.evaluate`."""
        return self.expression.evaluate(agent.context_variables)
