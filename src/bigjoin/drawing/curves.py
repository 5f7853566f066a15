"""The lines of a small graph: straight or bent edges that end where a vertex begins, loops, arrowheads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, cos, hypot, pi, sin

from bigjoin.drawing.layout import Extent, Point
from bigjoin.markup import number

ARROW_LENGTH, ARROW_WIDTH = 8.0, 6.4

LOOP_LENGTH, LOOP_ANGLE = 34.0, 0.62
"""How far a loop reaches beyond its vertex, and half the angle that it begins and ends with."""

SEARCH_STEPS = 24
"""Halvings with which the place is found where a curve meets the rim of a vertex."""

CHECKED_PLACES = 25
"""Places of a curve at which it is looked for vertices in its way."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The rim of a vertex: a rectangle with round corners."""

    middle: Point
    extent: Extent
    radius: float

    def holds(self, place: Point, margin: float = 0.0) -> bool:
        """Tell whether a place lies inside."""
        radius = self.radius + margin
        dx = max(0.0, abs(place[0] - self.middle[0]) - (self.extent[0] / 2 + margin - radius))
        dy = max(0.0, abs(place[1] - self.middle[1]) - (self.extent[1] / 2 + margin - radius))
        return hypot(dx, dy) <= radius


@dataclass(frozen=True, slots=True)
class Curve:
    """A line with two or three control points between its ends."""

    points: tuple[Point, ...]

    def at(self, share: float) -> Point:
        """Return the place at a share of the way."""
        places = self.points
        while len(places) > 1:
            places = tuple(_between(one, other, share) for one, other in pairwise(places))
        return places[0]

    def direction(self, share: float) -> Point:
        """Return in which direction it leads there, as a vector of length 1."""
        (x1, y1), (x2, y2) = self.at(max(0.0, share - 0.01)), self.at(min(1.0, share + 0.01))
        length = hypot(x2 - x1, y2 - y1) or 1.0
        return (x2 - x1) / length, (y2 - y1) / length

    def part(self, first: float, last: float) -> Curve:
        """Return a part of it."""
        left = self.points
        kept: list[Point] = []
        while left:  # the part up to `last`
            kept.append(left[0])
            left = tuple(_between(one, other, last) for one, other in pairwise(left))
        right, found = tuple(kept), list[Point]()
        share = first / last if last else 0.0
        while right:  # of that, the part from `first`
            found.append(right[-1])
            right = tuple(_between(one, other, share) for one, other in pairwise(right))
        return Curve(tuple(reversed(found)))

    @property
    def path(self) -> str:
        """What SVG calls it."""
        kind = {2: "L", 3: "Q", 4: "C"}[len(self.points)]
        first, *others = (f"{number(x)} {number(y)}" for x, y in self.points)
        return f"M{first} {kind}{' '.join(others)}"


def _between(one: Point, other: Point, share: float) -> Point:
    return one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share


def bent(start: Point, end: Point, bend: float) -> Curve:
    """Return a line that passes so many pixels to the left of the straight one, seen in its direction."""
    if not bend:
        return Curve((start, end))
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = hypot(dx, dy) or 1.0
    middle = ((start[0] + end[0]) / 2 + 2 * bend * dy / length, (start[1] + end[1]) / 2 - 2 * bend * dx / length)
    return Curve((start, middle, end))


def free_bend(start: Outline, end: Outline, others: Sequence[Outline], wanted: float) -> float:
    """Return how much to bend an edge so that it meets no other vertex: as wanted, or as little more as possible."""
    for more in (0.0, 16.0, -16.0, 30.0, -30.0, 46.0, -46.0, 64.0, -64.0):
        curve = bent(start.middle, end.middle, wanted + more)
        places = [curve.at(i / CHECKED_PLACES) for i in range(1, CHECKED_PLACES)]
        if not any(other.holds(place, 3.0) for place in places for other in others):
            return wanted + more
    return wanted


def between_rims(curve: Curve, start: Outline, end: Outline, *, arrow: bool) -> tuple[Curve, Point]:
    """Return the part of a line that is outside of its ends, with room for an arrowhead, and where the tip of that is."""
    first = _crossing(lambda share: start.holds(curve.at(share)), 0.0, 0.6)
    tip = _crossing(lambda share: end.holds(curve.at(share), 1.0), 1.0, 0.4)
    base = _crossing(lambda share: end.holds(curve.at(share), 1.0 + ARROW_LENGTH * 0.8), 1.0, 0.4) if arrow else tip
    return curve.part(min(first, base - 0.01), max(base, 0.02)), curve.at(tip)


def _crossing(inside: Callable[[float], bool], near: float, far: float) -> float:
    """Return the share of a line's way at which it leaves what it is inside of at `near`, looking as far as `far`."""
    if inside(far) or not inside(near):
        return far if inside(far) else near
    for _ in range(SEARCH_STEPS):
        middle = (near + far) / 2
        near, far = (middle, far) if inside(middle) else (near, middle)
    return far


def loop(rim: Outline, angle: float, *, size: float = 1.0) -> tuple[Curve, Point]:
    """Return an edge from a vertex to itself, in some direction, and where the tip of its arrow is."""
    leaves, returns = angle - LOOP_ANGLE, angle + LOOP_ANGLE
    start, end = _on_rim(rim, leaves, 0.0), _on_rim(rim, returns, ARROW_LENGTH * 0.8)
    reach = LOOP_LENGTH * size
    out = (start[0] + reach * cos(leaves), start[1] + reach * sin(leaves))
    back = (end[0] + reach * cos(returns), end[1] + reach * sin(returns))
    return Curve((start, out, back, end)), _on_rim(rim, returns, 1.0)


def _on_rim(rim: Outline, angle: float, margin: float) -> Point:
    """Return where a ray from the middle of a vertex leaves it."""
    far = hypot(*rim.extent) + margin
    direction = (cos(angle), sin(angle))

    def at(share: float) -> Point:
        return rim.middle[0] + direction[0] * far * share, rim.middle[1] + direction[1] * far * share

    return at(_crossing(lambda share: rim.holds(at(share), margin), 0.0, 1.0))


def freest_angle(middle: Point, others: Sequence[Point]) -> float:
    """Return the direction from a vertex in which the fewest edges leave it; upwards, if there are none."""
    angles = sorted(atan2(y - middle[1], x - middle[0]) for x, y in others)
    if not angles:
        return -pi / 2
    gaps = [(b - a, a + (b - a) / 2) for a, b in zip(angles, [*angles[1:], angles[0] + 2 * pi], strict=True)]
    return max(gaps, key=lambda gap: (round(gap[0], 6), -_from_above(gap[1])))[1]


def _from_above(angle: float) -> float:
    """Return how far a direction is from upwards."""
    return abs((angle + pi / 2 + pi) % (2 * pi) - pi)


def arrowhead(tip: Point, curve: Curve, *, size: float = 1.0) -> str:
    """Return the path of an arrowhead at the end of a line."""
    end = curve.points[-1]
    dx, dy = tip[0] - end[0], tip[1] - end[1]
    length = hypot(dx, dy)
    dx, dy = (dx / length, dy / length) if length > 0.5 else curve.direction(1.0)
    base = (tip[0] - ARROW_LENGTH * size * dx, tip[1] - ARROW_LENGTH * size * dy)
    half = ARROW_WIDTH * size / 2
    left, right = (base[0] - dy * half, base[1] + dx * half), (base[0] + dy * half, base[1] - dx * half)
    corners = " ".join(f"{number(x)} {number(y)}" for x, y in (left, right))
    return f"M{number(tip[0])} {number(tip[1])} L{corners} Z"
