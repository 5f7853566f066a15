"""Share the prefixes of queries that are added up: plans that begin alike become a tree, and what they share is explored once.

Paths of several lengths begin alike, and so do the directions or types of a pattern. Each query could have its own best order;
to share, they follow one order as far as their steps agree. Three orders are tried: the best one of the largest query, that in
which it is written, and that backwards, which share the beginnings and the ends of paths. The cheapest tree is taken, unless
separate plans are cheaper: a count that eliminates attributes often is.

Restrictions of `unique` queries compare attributes in ways that differ from query to query, so these are not shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from bigjoin.planner.build_steps import About, UnreachableError, step_for
from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.order_attributes import prefixes_of
from bigjoin.planner.search_nest import Ends, NestSearch
from bigjoin.query.nest import Loop, Nest, PlanTree, seed_steps
from bigjoin.query.plan import Extender, Plan, Step
from bigjoin.query.query import Atom, Query

MAX_SHARING_QUERIES = 24
"""Queries of a sum for which a tree is looked for: the function of a larger one would take too long to compile."""

PlanInOrder = Callable[[Draft, tuple[str, ...]], Plan]
"""Makes the plan of a query in a certain order, or, if that is empty, in the best one."""


def share_prefixes(drafts: Sequence[Draft], plan: PlanInOrder) -> PlanTree | None:
    """Return the cheapest tree of plans for queries that are added up, or None if nothing can be shared."""
    if not 1 < len(drafts) <= MAX_SHARING_QUERIES or any(draft.query.unique or draft.first for draft in drafts):
        return None
    largest = max(drafts, key=lambda draft: len(draft.attributes))
    written = largest.query.atoms
    templates = dict.fromkeys((plan(largest, ()).attributes, _in_order(written), _in_order(written[::-1], backwards=True)))
    trees = []
    for template in templates:
        try:
            plans = [plan(draft, _following(template, largest, draft)) for draft in drafts]
        except UnreachableError:
            continue
        tree = _Tree()
        for number in sorted(range(len(drafts)), key=lambda number: -len(plans[number].attributes)):
            tree.add(number, plans[number], drafts[number])
        if tree.shares and len(tree.roots) == 1:
            trees.append(tree.built(drafts, plans))
    return min(trees, key=lambda tree: tree.cost, default=None)


def cost_apart(draft: Draft, plan: Plan) -> float:
    """Return the values that a plan by itself is expected to look at."""
    tree = _Tree()
    tree.add(0, plan, draft)
    return sum(node.cost for root in tree.roots for node in root.walk())


def _in_order(atoms: Sequence[Atom], *, backwards: bool = False) -> tuple[str, ...]:
    """Return the attributes of atoms in the order in which they appear; backwards, the second comes before the first."""
    found: dict[str, None] = {}
    for atom in (atom for atom in atoms if not atom.negated):
        first, *others = atom.attributes
        second = others[:1]
        found |= dict.fromkeys((*second, first, *others[1:]) if backwards else atom.attributes)
    return tuple(found)


def _following(template: tuple[str, ...], largest: Draft, draft: Draft) -> tuple[str, ...]:
    """Return an order for a query that takes the steps of another one as long as it has such steps."""
    names: dict[str, str] = {}
    order: tuple[str, ...] = ()
    estimate, about, about_largest = SizeEstimate(draft), About.parts_of(draft), About.parts_of(largest)
    domains, wanted_domains = (each.statistics.domains_of(each.positive) for each in (draft, largest))
    for i, wanted in enumerate(template):
        step = _key(_step(wanted, template[:i], largest, about_largest), {a: a for a in template})
        left = [a for a in draft.attributes if a not in order and domains[a] == wanted_domains[wanted]]
        left.sort(key=lambda a: a != wanted)
        found = next((a for a in left if _key(_step(a, order, draft, about), {**names, a: wanted}) == step), None)
        if found is None:
            break
        names[found] = wanted
        order = (*order, found)
    while len(order) < len(draft.attributes):
        sets = prefixes_of(order)
        order = (*order, min(estimate.reachable(sets[-1]), key=lambda a: estimate.work(a, order, sets)))
    return order


def _step(attribute: str, bound: tuple[str, ...], draft: Draft, about: About) -> Step:
    return step_for(attribute, bound, replace(draft, order=(*bound, attribute)), listing=False, about=about)


def _key(step: Step, names: Mapping[str, str]) -> object:
    """Return what makes two steps the same, given the names of the attributes that are bound."""

    def of(extender: Extender) -> object:
        atom = extender.atom
        bound = tuple(names.get(a, "") for a in extender.reads)
        return atom.relation, atom.view, atom.version, atom.negated, len(atom.attributes), extender.columns, bound

    kinds = (step.extenders, step.excluders, step.checks)
    lists = tuple(frozenset(map(of, kind)) for kind in kinds)
    full: dict[str, str] = dict(names)
    filters = frozenset(str(f.renamed({a: full.get(a, "") for a in f.attributes}).canonical()) for f in step.filters)
    restrictions = frozenset(r.renamed({a: full.get(a, "") for a in r.attributes}) for r in step.restrictions)
    return lists, filters, restrictions


@dataclass(eq=False)
class _Node:
    """A step of one or more plans."""

    step: Step
    key: object
    cost: float
    children: list[_Node] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def walk(self) -> Iterator[_Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def loop(self) -> Loop:
        return Loop(self.step, apart=tuple(child.loop() for child in self.children), ends=tuple(sorted(self.ends)))


class _Tree:
    """Plans merged as far as their steps are the same."""

    def __init__(self) -> None:
        self.roots: list[_Node] = []
        self.names: dict[int, dict[str, str]] = {}
        """By query: the name that each of its attributes has in the tree."""
        self.taken: set[str] = set()
        self.shares = False

    def add(self, number: int, plan: Plan, draft: Draft) -> None:
        """Add a plan; steps that are there already are shared."""
        names = self.names[number] = {}
        search = NestSearch(draft, SizeEstimate(draft))
        siblings, bound, node = self.roots, tuple[str, ...](), None
        for step in (*seed_steps(plan.seed), *plan.steps):
            attribute = step.attribute
            node = next((n for n in siblings if _key(step, {**names, attribute: n.step.attribute}) == n.key), None)
            if node is None:
                name = next(n for i in count() if (n := attribute + "_" * i) not in self.taken)
                key = _key(step, {**names, attribute: name})
                cost = _cost(search, bound, attribute, is_last=len(bound) + 1 == len(plan.attributes))
                node = _Node(_renamed(step, {**names, attribute: name}), key, cost)
                siblings.append(node)
                self.taken.add(name)
            else:
                self.shares = True
            names[attribute] = node.step.attribute
            siblings, bound = node.children, (*bound, attribute)
        assert node is not None
        node.ends.append(number)

    def built(self, drafts: Sequence[Draft], plans: Sequence[Plan]) -> PlanTree:
        """Return the tree, if it has one root: its plans begin with the same attribute."""
        root = self.roots[0].loop()
        attributes = tuple(loop.attribute for loop in root.walk())
        atoms = [atom.renamed(self.names[number]) for number, draft in enumerate(drafts) for atom in draft.positive]
        scope = Query("tree", (), tuple(dict.fromkeys(atoms)), dialect=drafts[0].query.dialect)
        cost = sum(node.cost for node in self.roots[0].walk())
        queries, orders = tuple(draft.query for draft in drafts), tuple(plan.attributes for plan in plans)
        return PlanTree(queries, Nest(1, root, attributes), orders, scope, cost)


def _cost(search: NestSearch, bound: tuple[str, ...], attribute: str, *, is_last: bool) -> float:
    """Estimate the values that a loop looks at; the last one is only counted."""
    path = frozenset(bound)
    reading = search.reading(path, Ends(bound[0], bound[-1]), attribute) if bound else 0.0
    return reading if is_last else reading + search.estimate.prefixes(path | {attribute})


def _renamed(step: Step, names: Mapping[str, str]) -> Step:
    """Return a step with the names of the tree; what is not bound yet keeps its own, which nobody reads."""

    def of(extender: Extender) -> Extender:
        known = {a: names.get(a, a) for a in extender.atom.attributes}
        return replace(extender, atom=extender.atom.renamed(known), after=tuple(names.get(a, a) for a in extender.after))

    full = dict(names)
    return Step(
        names[step.attribute],
        tuple(map(of, step.extenders)),
        tuple(map(of, step.excluders)),
        tuple(r.renamed(full) for r in step.restrictions),
        tuple(map(of, step.checks)),
        tuple(f.renamed(full) for f in step.filters),
    )
