"""What columns of a result are called that have no name of their own: what Spark SQL calls them, as far as we know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

_SYMBOLS: dict[type[Any], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.And: "AND",
    exp.Or: "OR",
}


def natural_name(node: Any) -> str:
    """Return what Spark SQL calls a column that is computed so; one that is only cast keeps its name."""
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
        return str(node.this.name)
    return _written(node)


def _written(node: Any) -> str:
    kind = type(node)
    if kind in _SYMBOLS:
        return f"({_written(node.this)} {_SYMBOLS[kind]} {_written(node.expression)})"
    writer = _WRITERS.get(kind)
    return writer(node) if writer is not None else str(node.sql(dialect="spark"))


def _listed(nodes: list[Any]) -> str:
    return ", ".join(map(_written, nodes))


def _is(node: Any) -> str:
    return f"({_written(node.this)} IS {_written(node.expression)})"


def _not(node: Any) -> str:
    if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return f"({_written(node.this.this)} IS NOT NULL)"
    return f"(NOT {_written(node.this)})"


def _like(word: str) -> Callable[[Any], str]:
    def written(node: Any) -> str:
        found = f"{_written(node.this)} {word} {_written(node.expression)}"
        return f"(NOT {found})" if node.args.get("negate") else found

    return written


def _case(node: Any) -> str:
    parts = ["CASE"]
    for branch in node.args["ifs"]:
        condition = _written(branch.this)
        if node.this is not None:
            condition = f"({_written(node.this)} = {condition})"
        parts.append(f"WHEN {condition} THEN {_written(branch.args['true'])}")
    default = node.args.get("default")
    return " ".join([*parts, *([] if default is None else [f"ELSE {_written(default)}"]), "END"])


def _if(node: Any) -> str:
    parts = [node.this, node.args["true"], node.args.get("false")]
    return f"(IF({_listed([part for part in parts if part is not None])}))"


def _call(node: Any) -> str:
    arguments, distinct = node.expressions, ""
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = arguments[0].expressions, "DISTINCT "
    return f"{str(node.this).lower()}({distinct}{_listed(arguments)})"


def _cast(node: Any) -> str:
    target = node.args["to"].sql(dialect="spark").upper()
    if isinstance(node.this, exp.Literal) and target in ("DATE", "TIMESTAMP"):
        return f"{target} '{node.this.this}'"
    if isinstance(node.this, exp.Literal):
        return str(node.this.this)
    return f"CAST({_written(node.this)} AS {target})"


def _substring(node: Any) -> str:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return f"substring({_listed([part for part in parts if part is not None])})"


_WRITERS: dict[type[Any], Callable[[Any], str]] = {
    exp.Column: lambda node: str(node.name),
    exp.Literal: lambda node: str(node.this),
    exp.Boolean: lambda node: str(node.this).lower(),
    exp.Star: lambda _: "1",  # only of count(*), which Spark reads as count(1)
    exp.Paren: lambda node: _written(node.this),
    exp.Neg: lambda node: f"-{node.this.this}" if isinstance(node.this, exp.Literal) else f"(- {_written(node.this)})",
    exp.NEQ: lambda node: f"(NOT ({_written(node.this)} = {_written(node.expression)}))",
    exp.DPipe: lambda node: f"concat({_written(node.this)}, {_written(node.expression)})",
    exp.Not: _not,
    exp.Is: _is,
    exp.Like: _like("LIKE"),
    exp.ILike: _like("ILIKE"),
    exp.RegexpLike: lambda node: f"RLIKE({_written(node.this)}, {_written(node.expression)})",
    exp.Between: lambda node: f"between({_listed([node.this, node.args['low'], node.args['high']])})",
    exp.In: lambda node: f"({_written(node.this)} IN ({_listed(node.expressions)}))",
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: lambda node: f"extract({node.name.upper()} FROM {_written(node.expression)})",
    exp.Substring: _substring,
    exp.Trim: lambda node: f"trim({_written(node.this)})",
    exp.Anonymous: _call,
    exp.Filter: lambda node: f"{_written(node.this)} FILTER (WHERE {_written(node.expression.this)})",
}
