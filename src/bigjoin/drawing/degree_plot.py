"""How many vertices have which degree, on logarithmic scales: the shape that decides how skewed a graph is."""

from __future__ import annotations

from collections.abc import Sequence

from bigjoin.drawing.bars import columns
from bigjoin.drawing.drawing import Drawing
from bigjoin.drawing.figure import SMALL_SIZE, lines_of_text, stacked

HUB_WIDTH = 560.0


def degree_plot(histogram: Sequence[int], hubs: Sequence[tuple[object, int]], *, title: str) -> Drawing:
    """Return the histogram of degrees 0, 1, 2 to 3, 4 to 7, ..., with the largest hubs below."""
    first = 0 if histogram and histogram[0] else 1
    ranges = [degree_range(bucket) for bucket in range(len(histogram))]
    drawn = columns(
        list(histogram[first:]), ranges[first:], title=title, across="degree", upwards="vertices of each range of degrees"
    )
    told = [f"largest hubs: {', '.join(f'{hub} ({degree:,})' for hub, degree in hubs)}"] if hubs else []
    below = lines_of_text(told, most=max(HUB_WIDTH, drawn.width), size=SMALL_SIZE, quiet=True)
    return Drawing.of(stacked([drawn, below]), title)


def degree_range(bucket: int) -> str:
    """Return the degrees of a bucket of the manifest's histogram, as text."""
    low, high = (1 << bucket) >> 1, (1 << bucket) - 1
    return f"{low:,}" if low == high else f"{low:,}\u2013{high:,}"
