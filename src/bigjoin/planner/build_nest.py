"""Turn the loops that a search chose into loops with steps: each atom, filter and restriction where it can be decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from bigjoin.planner.build_steps import seed_of, step_for
from bigjoin.planner.draft import Draft
from bigjoin.planner.search_nest import Node
from bigjoin.query.nest import Counter, Loop, seed_steps


def build_nest(root: Node, draft: Draft) -> Loop:
    """Return the nest of a draft; the loops of a delta's attributes, if it is seeded with one, read its tuples."""
    draft = replace(draft, order=tuple(dict.fromkeys(a for path in paths(root) for a in path)))
    seed = {step.attribute: step for step in seed_steps(seed_of(draft))} if draft.first is not None else {}
    numbers = count()

    def built(node: Node, path: tuple[str, ...], weights: tuple[int, ...], collects: int | None, around: int) -> Loop:
        """Return a loop; in a spine, the first `around` attributes of the path are those around the counter."""
        here = draft
        path = path[-1:] if node.cached else path  # what is kept for each value must not depend on anything else
        if node.collects:  # what joins the attribute to those around the counter is seen by the loop that uses the counter
            outer = {*path[:around], node.attribute}
            here = replace(draft, atoms=tuple(atom for atom in draft.atoms if not set(atom.attributes) <= outer))
        step = seed.get(node.attribute) or step_for(node.attribute, path, here, listing=not weights)
        inside = (*path, node.attribute)
        mine = [next(numbers) for _ in node.spines]
        counters = tuple(
            Counter(number, built(spine, inside, (), number, len(inside)))
            for number, spine in zip(mine, node.spines, strict=True)
        )
        leads = collects is not None and not node.collects
        inner = tuple(
            built(child, inside, tuple(mine[w] for w in child.weights), collects if leads and not i else None, around)
            for i, child in enumerate(node.inner)
        )
        return Loop(step, inner, counters, weights, collects if node.collects else None, node.cached, node.discount)

    return built(root, (), (), None, 0)


def paths(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the attributes that are bound together, for each loop those around it (that it may see) and its own last."""
    now = (*(path[-1:] if node.cached else path), node.attribute)
    yield now
    for child in (*node.spines, *node.inner):
        yield from paths(child, now)
