"""Turn and flip the places of vertices until a graph stands straight: level, the same on both sides, leading rightwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import atan2, cos, pi, sin

import numpy as np
from numpy.typing import NDArray

MAX_ANGLES = 48
"""Angles that are tried."""

ANGLE_STEP = pi / 90
"""Angles closer than this are one."""

ALIGNED_WITHIN = 0.12
"""Coordinates that differ by less become the same."""


def straightened(places: NDArray[np.float64], ends: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Return places turned and flipped; an edge leads from its first end to its second."""
    centred = places - (places.min(axis=0) + places.max(axis=0)) / 2
    turned = [_turned(centred, angle) for angle in _angles(centred, ends)]
    best = min(turned, key=lambda each: round(_slant(each, ends), 4))
    flips = [best * flip for flip in ((1, 1), (-1, 1), (1, -1), (-1, -1))]
    return min(flips, key=lambda each: (round(_slant(each, ends), 4), round(_backwards(each, ends), 4)))


def _angles(places: NDArray[np.float64], ends: Iterable[tuple[int, int]]) -> list[float]:
    """Return the angles by which an edge becomes level or upright, or a vertex comes to lie above the middle."""
    found = [0.0]
    for a, b in ends:
        dx, dy = places[b] - places[a]
        found += [-atan2(dy, dx), pi / 2 - atan2(dy, dx)]
    found += [-pi / 2 - atan2(y, x) for x, y in places if abs(x) + abs(y) > 1e-6]
    steps = dict.fromkeys(round((angle % pi) / ANGLE_STEP) for angle in found)
    by_step = {step: next(angle % pi for angle in found if round((angle % pi) / ANGLE_STEP) == step) for step in steps}
    return list(by_step.values())[:MAX_ANGLES]


def _turned(places: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    turn = np.array([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])
    return np.asarray(places @ turn.T)


def _slant(places: NDArray[np.float64], ends: Sequence[tuple[int, int]]) -> float:
    """Return how far places are from standing straight."""
    along = np.abs(np.array([places[b] - places[a] for a, b in ends]))
    lengths = np.maximum(np.hypot(*along.T), 1e-9)
    level, upright = along[:, 1] / lengths < 0.03, along[:, 0] / lengths < 0.03
    width, height = np.ptp(places, axis=0)
    middle = places[:, 0].min() + width / 2
    mirrored = np.stack([2 * middle - places[:, 0], places[:, 1]], axis=1)
    apart = mirrored[:, None] - places[None, :]
    unlike = np.hypot(apart[..., 0], apart[..., 1]).min(axis=1).mean() / lengths.mean()
    tall = max(0.0, float(height / max(width, 1e-6)) - 1.0)
    return float(1.5 * unlike + 0.6 * min(tall, 3.0) - 0.8 * level.mean() - 0.3 * upright.mean())


def _backwards(places: NDArray[np.float64], ends: Sequence[tuple[int, int]]) -> float:
    """Return how much edges lead to the left or upwards, how far the first vertex is from the upper left, and what is above."""
    along = np.array([places[b] - places[a] for a, b in ends])
    first = places[0] - places.min(axis=0)
    top_heavy = (places[:, 1].max() + places[:, 1].min()) / 2 - places[:, 1].mean()
    return float(-along[:, 0].mean() - 0.6 * along[:, 1].mean() + 0.05 * first[0] + 0.3 * first[1] + 4.0 * top_heavy)


def aligned(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places with those coordinates made equal that nearly are; neighbours have about the distance 1."""
    found = places.copy()
    for axis in (0, 1):
        order = np.argsort(places[:, axis], kind="stable")
        values = places[order, axis]
        starts = np.flatnonzero(np.append(True, np.diff(values) > ALIGNED_WITHIN))
        for first, last in zip(starts, np.append(starts[1:], len(values)), strict=True):
            if values[last - 1] - values[first] <= 2 * ALIGNED_WITHIN:
                found[order[first:last], axis] = values[first:last].mean()
    return found
