"""Numbers of ordered pairs: 0 up to n (n - 1) name the possible edges of n vertices, without loops, row by row."""

from __future__ import annotations

from bigjoin.generators.family import Numbers, require

MOST_VERTICES = 3_037_000_500
"""Beyond this, the number of a pair may need more than 63 bits."""


def ordered_pairs(numbers: Numbers, vertices: int) -> tuple[Numbers, Numbers]:
    """Return the pairs of distinct vertices that have these numbers."""
    src, dst = numbers // (vertices - 1), numbers % (vertices - 1)
    dst += dst >= src
    return src, dst


def require_vertices(vertices: int, *, least: int, where: str) -> None:
    """Raise GeneratorError unless the pairs of so many vertices can be numbered."""
    require(least <= vertices <= MOST_VERTICES, f"{where} has from {least:,} to {MOST_VERTICES:,} vertices, not {vertices:,}")
