"""Turn the bindings that delta queries find into the matches that an epoch creates and destroys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bigjoin.index.trie import Codes
from bigjoin.joins.bind import OutputColumn
from bigjoin.kernels.report import report_forms
from bigjoin.query.delta import DeltaPlan, DeltaQuery, Image

CHANGE_COLUMN = "change"
"""The column with +1 for a match that was created and -1 for one that was destroyed."""


@dataclass(frozen=True)
class Signed:
    """A delta query in one phase of an epoch, and how its bindings are reported as signed matches."""

    plan: DeltaPlan
    dq: DeltaQuery
    insert: bool
    seeds: int = 0
    """How many tuples of the epoch seed it."""

    @property
    def sign(self) -> int:
        """+1 in the phase that creates matches, -1 in the one that destroys them."""
        return 1 if self.insert else -1

    @property
    def each(self) -> int:
        """The number of matches that each binding stands for, if it is the same for all bindings."""
        assert self.plan.query.injective or not self.dq.images, "depends on the match"
        return max(1, len(self.dq.images))

    def columns(self, outputs: Sequence[OutputColumn], found: Codes) -> Iterator[list[pa.Array]]:
        """Give the matches that bindings stand for, decoded, column by column."""
        for matches in changed(self.plan, self.dq, found):
            sign = pa.array(np.full(matches.shape[1], self.sign, np.int8))
            yield [sign, *(output.decode(matches) for output in outputs)]


def with_change(schema: pa.Schema) -> pa.Schema:
    """Return the columns of signed matches, given those of matches."""
    return pa.schema([pa.field(CHANGE_COLUMN, pa.int8()), *schema])


def changed(plan: DeltaPlan, dq: DeltaQuery, found: Codes) -> Iterator[Codes]:
    """Give the matches that a delta query's bindings stand for, in the order of its plan's attributes."""
    order = dq.plan.attributes
    if plan.automorphisms:
        yield _as_reported(plan, order, found)
    elif not dq.images:
        yield found
    for image in dq.images:
        yield _image(image, order, found)


def _image(image: Image, order: tuple[str, ...], found: Codes) -> Codes:
    """Return the matches of another atom of the orbit, except those that an earlier atom reports."""
    renamed = found[_sources(image.names, order)]
    seed = [order.index(a) for a in image.atom.attributes]
    theirs = np.zeros(renamed.shape[1], np.bool_)
    for atom in image.earlier:
        places = [order.index(a) for a in atom.attributes]
        theirs |= (renamed[places] == renamed[seed]).all(axis=0)
        if image.symmetric:
            theirs |= (renamed[[places[1], places[0], *places[2:]]] == renamed[seed]).all(axis=0)
    return renamed if not theirs.any() else np.compress(~theirs, renamed, axis=1)


def _as_reported(plan: DeltaPlan, order: tuple[str, ...], found: Codes) -> Codes:
    """Return each match in the one of its symmetric forms that satisfies the restrictions."""
    reported = np.empty(found.shape, found.dtype)
    sources = np.array([_sources(names, order) for names in plan.automorphisms], np.int64)
    smaller, larger = (
        np.array([order.index(getattr(r, end)) for r in plan.restrictions], np.int64) for end in ("smaller", "larger")
    )
    report_forms(np.ascontiguousarray(found), sources, smaller, larger, reported)
    return reported


def _sources(names: tuple[tuple[str, str], ...], order: tuple[str, ...]) -> list[int]:
    """Return for each attribute in order the position of the attribute that is renamed to it."""
    source = {new: order.index(old) for old, new in names}
    return [source[a] for a in order]
