"""The comparison operators: the only place that knows them. Adding one is adding an entry to OPERATORS.

The grammar, the planner's estimates, the arrays that a filter compares and the source of generated loops all follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ComparisonOperator:
    """A comparison operator, as users write it and as every layer below carries it out."""

    text: str
    flipped: str
    """The operator that holds when the two sides change places."""
    strict: str
    """The operator that says the same about values that are known to differ."""
    reflexive: bool
    """Whether it holds between equal values."""
    selectivity: float
    """The share of bindings that it is assumed to keep."""
    function: str
    """Its name in NumPy and in Arrow."""
    code: int
    """Its number in `kernels/compare.py`."""
    source: str
    """How Python spells it."""
    synonyms: tuple[str, ...] = ()

    @property
    def symmetric(self) -> bool:
        """Whether the sides can change places. Such an operator needs no order: codes can be compared instead of values."""
        return self.flipped == self.text

    @property
    def negated(self) -> str:
        """The operator that holds where this one does not, between values that are there."""
        others = (other for other in OPERATORS.values() if other.reflexive is not self.reflexive)
        return next(o.text for o in others if o.symmetric == self.symmetric and (o.symmetric or o.is_less is not self.is_less))

    @property
    def is_less(self) -> bool:
        """Whether it asks for smaller values on the left."""
        return self.function.startswith("less")


OPERATORS = {
    operator.text: operator
    for operator in (
        ComparisonOperator("<", ">", "<", reflexive=False, selectivity=0.5, function="less", code=0, source="<"),
        ComparisonOperator("<=", ">=", "<", reflexive=True, selectivity=0.5, function="less_equal", code=1, source="<="),
        ComparisonOperator(">", "<", ">", reflexive=False, selectivity=0.5, function="greater", code=2, source=">"),
        ComparisonOperator(">=", "<=", ">", reflexive=True, selectivity=0.5, function="greater_equal", code=3, source=">="),
        ComparisonOperator("!=", "!=", "!=", False, 1.0, function="not_equal", code=4, source="!=", synonyms=("<>",)),
        ComparisonOperator("=", "=", "=", True, 0.1, function="equal", code=5, source="==", synonyms=("==",)),
    )
}
"""By the text that a parsed comparison carries."""

LESS, GREATER_EQUAL, EQUAL, NOT_EQUAL = (OPERATORS[text] for text in ("<", ">=", "=", "!="))
BY_CODE = {operator.code: operator for operator in OPERATORS.values()}


def spellings() -> dict[str, ComparisonOperator]:
    """Return the operators by everything that users may write for them."""
    return {text: operator for operator in OPERATORS.values() for text in (operator.text, *operator.synonyms)}
