"""Turn chosen loops into loops with steps: each atom, filter and restriction where it can be decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from bigjoin.planner.build_steps import About, seed_of, step_for
from bigjoin.planner.draft import Draft
from bigjoin.planner.search_nest import LoopChoice
from bigjoin.query.nest import Counter, Loop, Nest, chain, seed_steps


def build_chain(draft: Draft) -> Draft:
    """Set the nest of factorized matches: loops within each other, and those of the tails side by side inside the last."""
    prefix = draft.order[: len(draft.order) - len(draft.tails)]
    about = About.parts_of(draft)
    steps = [step_for(attribute, prefix[:i], draft, about=about) for i, attribute in enumerate(prefix)]
    tails = [step_for(attribute, prefix, draft, about=about) for attribute in draft.tails]
    return replace(draft, plan=chain(steps, tails))


def build_nest(root: LoopChoice, draft: Draft, times: int) -> Nest:
    """Return the nest of a draft; if it is seeded with a delta, the loops of the seed's attributes read the delta."""
    attributes = tuple(dict.fromkeys(a for path in paths(root) for a in path))
    draft = replace(draft, order=attributes)
    about, numbers = About.parts_of(draft), count()
    seed = {step.attribute: step for step in seed_steps(seed_of(draft, about))} if draft.first is not None else {}

    def built(
        loop: LoopChoice,
        path: tuple[str, ...],
        weights: tuple[int, ...],
        collects: int | None,
        around: int,
        known: dict[LoopChoice, int],
    ) -> Loop:
        """Return a loop; in a spine, the first `around` attributes of the path are those around the counter.

        `known` are the numbers of the counters that loops further out fill.
        """
        weights = (*weights, *(known[first] for first in loop.outer))
        here = draft
        path = path[-1:] if loop.cached else path  # what is kept for each value must not depend on anything else
        if loop.collects:  # the loop that uses the counter checks what joins the attribute to those around the counter
            outer = {*path[:around], loop.attribute}
            here = replace(draft, atoms=tuple(atom for atom in draft.atoms if not set(atom.attributes) <= outer))
        mine = about if here is draft else None
        step = seed.get(loop.attribute) or step_for(loop.attribute, path, here, listing=not weights, about=mine)
        inside = (*path, loop.attribute)
        filled = [next(numbers) for _ in loop.spines]
        counters = tuple(
            Counter(number, built(spine, inside, (), number, len(inside), known))
            for number, spine in zip(filled, loop.spines, strict=True)
        )
        known = {**known, **dict(zip(loop.spines, filled, strict=True))}
        leads = collects is not None and not loop.collects
        inner = tuple(
            built(child, inside, tuple(filled[w] for w in child.weights), collects if leads and not i else None, around, known)
            for i, child in enumerate(loop.inner)
        )
        return Loop(step, inner, counters, weights, collects if loop.collects else None, loop.cached, loop.discount)

    return Nest(times, built(root, (), (), None, 0, {}), attributes)


def paths(loop: LoopChoice, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the attributes that are bound together: for each loop those around it that it may read, and its own as the last."""
    now = (*(path[-1:] if loop.cached else path), loop.attribute)
    yield now
    for child in (*loop.spines, *loop.inner):
        yield from paths(child, now)
