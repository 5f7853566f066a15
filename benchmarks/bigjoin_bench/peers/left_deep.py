"""A stand-in for GraphFrames, whose jar is not available: joins from left to right, as GraphFrames plans them.

It reads a motif and joins struct columns term by term, without any code of bigjoin's. Spark is free to plan each join as it
likes: GraphFrames leaves that to Spark too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_VERTEX = re.compile(r"\((\w*)\)", re.ASCII)
_EDGE = re.compile(r"(!?)\((\w*)\)(<?)-\[(\w*?)(?:\*(\d+)(?:\.\.(\d+))?)?\]-(>?)\((\w*)\)", re.ASCII)
_BETWEEN = "__tmpv"
"""How the vertices between two without a name are called; they are columns only if there are no others."""
_DIRECTION = ("_pattern", "_direction")


@dataclass(frozen=True)
class Term:
    """A vertex, or an edge with its ends; an empty name is none."""

    src: str
    edge: str | None = None
    """None if the term is a vertex."""
    dst: str = ""
    negated: bool = False
    undirected: bool = False

    @property
    def vertices(self) -> list[str]:
        return [name for name in (self.src, self.dst) if name]

    @property
    def columns(self) -> list[str]:
        names = [name for name in (self.src, self.edge, self.dst) if name and not name.startswith(_BETWEEN)]
        return [*names, *_DIRECTION] if self.undirected else names


@dataclass(frozen=True)
class LeftDeep:
    """A graph of two DataFrames, whose `find` has the meaning and the joins of GraphFrames'."""

    vertices: DataFrame
    edges: DataFrame

    def find(self, motif: str) -> DataFrame:
        """Return the matches: a struct for each named element, in the order in which they appear."""
        motif = re.sub(r"\s", "", motif)
        written = _EDGE.fullmatch(motif)
        if written is None or written[5] is None or written[3] or (written[6] is None and written[7]):
            return self._chained(motif)
        _, src, _, name, low, high, right, dst = written.groups()
        arrows = [("out", "-", "->")] if right else [("out", "-", "->"), ("in", "<-", "-")]
        frames = []
        for direction, left, right in arrows:
            for hops in range(int(high or low), int(low) - 1, -1):
                pattern = f"({src}){left}[{name}*{hops}]{right}({dst})"
                told = {"_hop": F.lit(hops), "_pattern": F.lit(pattern), "_direction": F.lit(direction)}
                frames.append(self._chained(pattern).withColumns(told))
        return reduce(_union, frames).orderBy("_hop", "_direction")

    def _chained(self, motif: str) -> DataFrame:
        terms = [term for text in motif.rstrip(";").split(";") for term in _terms(text)]
        positive = {name for term in terms if not term.negated for name in term.vertices}
        only_negated = sorted({name for term in terms if term.negated for name in term.vertices} - positive)
        found: DataFrame | None = None
        seen: set[str] = set()
        for term in (*map(Term, only_negated), *terms):
            found = self._joined(found, seen, term)
            seen.update(term.vertices)
        assert found is not None
        columns = dict.fromkeys(name for term in terms for name in term.columns)
        return found.select(*columns) if columns else found

    def _joined(self, found: DataFrame | None, seen: set[str], term: Term) -> DataFrame:
        """Return the rows so far, joined to one more term."""
        if term.edge is None:
            return found if found is not None and term.src in seen else _join(found, _nested(self.vertices, term.src), ())
        if term.negated:
            assert found is not None, "a negated term needs rows to take away from"
            return found.subtract(self._joined(found, seen, replace(term, negated=False)))
        if not term.undirected:
            return self._with_edge(found, seen, term)
        ways = []
        for direction, left, right, way in (
            ("in", "<-", "-", Term(term.dst, term.edge, term.src)),
            ("out", "-", "->", Term(term.src, term.edge, term.dst)),
        ):
            told = F.lit(f"({term.src}){left}[{term.edge}]{right}({term.dst})"), F.lit(direction)
            ways.append(self._with_edge(found, seen, way).withColumns(dict(zip(_DIRECTION, told, strict=True))))
        return _union(*ways).orderBy("_direction")

    def _with_edge(self, found: DataFrame | None, seen: set[str], term: Term) -> DataFrame:
        """Return the rows joined to the edges by the ends that they have, and then to the vertices by those that they lack."""
        edge = term.edge or "__edge"
        ends = [(F.col(f"{edge}.{end}"), name) for end, name in (("src", term.src), ("dst", term.dst)) if name]
        found = _join(
            found, _nested(self.edges, edge), [column == F.col(f"{name}.id") for column, name in ends if name in seen]
        )
        for name in dict.fromkeys(name for _, name in ends if name not in seen):
            meets = [column == F.col(f"{name}.id") for column, other in ends if other == name]
            found = _join(found, _nested(self.vertices, name), meets)
        return found if term.edge else found.drop(edge)


def _terms(text: str) -> Iterator[Term]:
    """Give the plain terms that a term of a motif is rewritten to."""
    if vertex := _VERTEX.fullmatch(text):
        yield Term(vertex[1])
        return
    written = _EDGE.fullmatch(text)
    assert written is not None, f"{text} is not a term of a motif"
    negated, left, inward, name, hops, _, outward, right = written.groups()
    if not (inward or outward):
        yield Term(left, name, right, bool(negated), undirected=True)
        return
    ways = [(left, right), (right, left)] if inward and outward else [(right, left) if inward else (left, right)]
    for number, (src, dst) in enumerate(ways, 1):
        if hops is None:
            yield Term(src, f"{name}{number}" if name and len(ways) == 2 else name, dst, bool(negated))
            continue
        prefix = f"_{src}{dst}" if src or dst else _BETWEEN
        stops = [src, *(f"{prefix}{hop}" for hop in range(1, int(hops))), dst]
        for hop, (one, other) in enumerate(pairwise(stops), 1):
            yield Term(one, f"_{name}{hop}" if name else "", other, bool(negated))


def _nested(frame: DataFrame, name: str) -> DataFrame:
    return frame.select(F.struct(*frame.columns).alias(name))


def _join(found: DataFrame | None, other: DataFrame, conditions: Sequence[Column]) -> DataFrame:
    if found is None:
        return other
    return found.join(other, reduce(Column.__and__, conditions)) if conditions else found.crossJoin(other)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)
