"""An explanation as HTML: the pattern, the attribute order, the steps with expected and real sizes, the loops of a count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from bigjoin.drawing.bars import about, largest, legend
from bigjoin.drawing.draw import pattern_figure
from bigjoin.drawing.figure import Figure, document, lines_of_text, stacked
from bigjoin.drawing.loop_rows import loop_rows, text_width
from bigjoin.drawing.page import fragment, page
from bigjoin.drawing.pattern import PatternDrawing
from bigjoin.drawing.steps import StepSizes, step_panels
from bigjoin.errors import bounded, shown
from bigjoin.explain import as_text, matches_of
from bigjoin.explained import Explained, ExplainedPart, ExplainedQuery, StepRun
from bigjoin.languages.translate import as_rule
from bigjoin.markup import Markup, element
from bigjoin.planner.expected_sizes import ExpectedSizes, expected_of_nest, expected_of_plan, expected_of_tree
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.nest import Nest

MAX_PARTS = 3
"""Queries of a sum whose plans are drawn; the text has all of them."""

MAX_QUERIES = 4
"""Queries of a statement that are drawn."""

MAX_DELTAS = 6
"""Delta queries whose steps are drawn."""

MAX_TERMS = 4
"""Nests of a count that are drawn."""

MAX_RULE = 600
"""Characters of a rule that are shown above its picture."""


def explanation_page(given: Explained, text: str | None = None) -> str:
    """Return an explanation as a complete page."""
    return page(f"explain {shown(_title(given), 80)}", *_content(given, text))


def explanation_fragment(given: Explained, text: str | None = None) -> str:
    """Return an explanation as a part of a page, such as a notebook."""
    return fragment(*_content(given, text))


def text_page(title: str, text: str) -> str:
    """Return a page with a text alone."""
    return page(title, element("pre", text))


def _title(given: Explained) -> str:
    return given.statement.text.strip() if given.statement.language == "name" else given.statement.name


def _content(given: Explained, text: str | None) -> Iterator[Markup]:
    """Give what a page consists of."""
    yield element("h2", shown(_title(given), 120))
    if given.statement.language in ("motif", "cypher", "sql"):
        yield element("pre", shown(given.statement.text.strip(), MAX_RULE))
        yield element("p", "means", class_="bigjoin-quiet")
        yield element("pre", bounded(as_rule(given.statement, given.known)))
    for asked in given.queries[:MAX_QUERIES]:
        yield from _query(asked, given)
    if len(given.queries) > MAX_QUERIES:
        yield element("p", f"and {len(given.queries) - MAX_QUERIES} more queries: see the text", class_="bigjoin-quiet")
    yield from _run(given)
    yield element("details", element("summary", "the whole plan as text"), element("pre", text or as_text(given)))


def _query(asked: ExplainedQuery, given: Explained) -> Iterator[Markup]:
    """Give the pattern of a query, what is known about it, and its plans."""
    if given.statement.language in ("name", "rule"):
        yield element("p", element("code", shown(asked.read_as[0] if len(asked.read_as) == 1 else asked.query, MAX_RULE)))
    yield element("p", f"A match is {_in_words(matches_of(asked.query))}.", class_="bigjoin-quiet")
    undirected = any(relation.symmetric for relation in given.known.relations.values())
    pattern = _picture(pattern_figure(asked.query, given.known, undirected=undirected), "the pattern")
    facts = (part for name, told in _facts(asked, given) for part in (element("dt", name), element("dd", told)))
    yield element("div", pattern, element("dl", *facts), class_="bigjoin-beside")
    for number, part in enumerate(asked.parts[:MAX_PARTS], start=1):
        yield from _part(part, number if len(asked.parts) > 1 else 0, asked, has_run=given.stats is not None)
    if len(asked.parts) > MAX_PARTS:
        left = len(asked.parts) - MAX_PARTS
        yield element("p", f"and {left} more parts, planned in the same way: see the text", class_="bigjoin-quiet")
    if (tree := asked.trees.get("counted")) is not None:
        yield element("h3", "Counted together, what parts begin with once")
        expected = expected_of_tree(asked.parts[0].draft, tree)
        yield _loops([tree.nest], [expected], None if asked.tree_run is None else (asked.tree_run,))


def _in_words(told: str) -> str:
    """Return what a match is, for one match."""
    return told.replace("every binding", "any binding").replace("bindings whose", "a binding whose")


def _facts(asked: ExplainedQuery, given: Explained) -> Iterator[tuple[str, str]]:
    """Give what is known before anything runs, by name."""
    if len(asked.parts) == 1:
        yield "attribute order", " \u2192 ".join(asked.parts[0].plan.attributes)
    else:
        yield "parts", f"a sum of {len(asked.parts)} queries"
    if asked.bound is not None:
        yield "AGM bound", f"{asked.bound:,.0f} matches at most" if asked.bound < 1e15 else f"{asked.bound:.1e} matches at most"
    yield "cover, packing", f"fractional edge cover number {asked.cover:g}, edge packing number {asked.packing:g}"
    seeds = {one.relation for one in asked.given}
    read = dict.fromkeys(atom.relation for part in asked.parts for atom in part.draft.query.positive)
    for name in read:
        relation = given.known.relations.get(name)
        if relation is not None and name not in seeds:
            kind = "assumed" if not given.is_known else "undirected, both directions" if relation.symmetric else ""
            yield name, f"{relation.tuples:,} tuples" + (f" ({kind})" if kind else "")
    for one in asked.given:
        yield one.relation, f"{one.seeds.tuples:,} seeds of ({', '.join(one.seeds.attributes)})"
    if given.strategy is not None:
        yield "strategy", given.strategy


def _part(part: ExplainedPart, number: int, asked: ExplainedQuery, *, has_run: bool) -> Iterator[Markup]:
    """Give how a part's matches are found, and how they are counted."""
    if number:
        yield element("h3", f"Part {number} of {len(asked.parts)}")
        yield element("p", element("code", shown(part.draft.query, MAX_RULE)))
    else:
        yield element("h3", "Finding matches, step by step")
    yield _picture(_steps(part), "the steps of the plan", _not_taken(part, asked) if has_run else "")
    if "counted" not in asked.trees or part.loops_run is not None:
        yield element("h3", f"Counting them{_sum(part)}")
        expected = [expected_of_nest(part.draft, nest) for nest in part.counted.terms[:MAX_TERMS]]
        yield _loops(part.counted.terms, expected, part.loops_run)
    yield from _deltas(part)


def plan_figure(given: Explained) -> Figure:
    """Return the steps of the first plan of an explanation."""
    return _steps(given.queries[0].parts[0])


def _steps(part: ExplainedPart) -> Figure:
    sizes = _sizes(expected_of_plan(part.draft, part.plan), part.steps_run)
    return stacked([_kinds(sizes), step_panels(part.plan, _pattern_of(part), sizes)])


def _not_taken(part: ExplainedPart, asked: ExplainedQuery) -> str:
    """Return why steps have only expected sizes although there was a run; nothing if they have real ones."""
    if part.steps_run is not None:
        return ""
    by_loops = part.loops_run is not None or asked.tree_run is not None
    did = "counted with the loops below instead of" if by_loops else "did not take"
    return f"This run {did} these steps, so only their expected sizes are shown."


def _sum(part: ExplainedPart) -> str:
    terms, divisor = len(part.counted.terms), part.counted.divisor
    told = [f"a sum of {terms} nests of loops"] if terms > 1 else ["as a nest of loops"]
    told += [f"divided by {divisor}"] if divisor > 1 else []
    return f", {', '.join(told)}"


def _pattern_of(part: ExplainedPart) -> PatternDrawing:
    """Return the pattern that a plan binds step by step: the atoms of its query, without what seeds have become."""
    undirected = any(relation.symmetric for relation in part.draft.statistics.relations.values())
    return PatternDrawing(part.draft.query, part.draft.statistics, undirected)


def _sizes(expected: Sequence[ExpectedSizes | None], run: Sequence[StepRun] | None) -> list[StepSizes]:
    runs: Sequence[StepRun | None] = [None] * len(expected) if run is None else run
    return [StepSizes(each, did) for each, did in zip(expected, runs, strict=True)]


def _kinds(sizes: Sequence[StepSizes]) -> Figure:
    """Return what the bars are: expected by the planner and, after a run, real."""
    has_run = any(each.run is not None for each in sizes)
    return legend([("expected (log scale)", False), *([("in this run", True)] if has_run else [])])


def _loops(
    nests: Sequence[Nest], expected: Sequence[Sequence[ExpectedSizes | None]], runs: Sequence[Sequence[StepRun]] | None
) -> Markup:
    """Return the loops of nests as a picture, on one scale."""
    drawn = nests[:MAX_TERMS]
    told: Sequence[Sequence[StepRun] | None] = [None] * len(drawn) if runs is None else runs[: len(drawn)]
    sizes = [_sizes(each, run) for each, run in zip(expected, told, strict=True)]
    most = largest(group for each in chain.from_iterable(sizes) for group in each.groups())
    width = max(map(text_width, drawn), default=0.0)
    figures = [_kinds(list(chain.from_iterable(sizes)))]
    for nest, each in zip(drawn, sizes, strict=True):
        if len(nests) > 1 or nest.times != 1:
            figures.append(lines_of_text([_times(nest)], most=400.0))
        figures.append(loop_rows(nest, each, most=most, width=width))
    if len(nests) > len(drawn):
        figures.append(lines_of_text([f"and {len(nests) - len(drawn)} more nests"], most=400.0, quiet=True))
    return _picture(stacked(figures, gap=12.0), "the loops of a count")


def _times(nest: Nest) -> str:
    return {1: "plus the sum", -1: "minus the sum"}.get(nest.times, f"{nest.times:+d} times the sum")


def _deltas(part: ExplainedPart) -> Iterator[Markup]:
    """Give the delta queries that list what updates change."""
    if not part.deltas:
        return
    plans = part.deltas[0]
    yield element("h3", "When edges change")
    for number, one in enumerate(plans.queries[:MAX_DELTAS], start=1):
        others = [image.atom for image in one.images if image.atom != one.atom]
        shared = f", and by renaming for {', '.join(map(str, others))}" if others else ""
        yield element("p", f"dQ{number}, seeded with the delta of ", element("code", one.atom), shared)
        pattern = _pattern_of(part)
        yield _picture(step_panels(one.plan, pattern, [StepSizes(None)] * (1 + len(one.plan.steps))), f"delta query {number}")
    yield from _left(plans)


def _left(plans: DeltaPlan) -> Iterator[Markup]:
    if len(plans.queries) > MAX_DELTAS:
        left = len(plans.queries) - MAX_DELTAS
        yield element("p", f"and {left} more delta queries: see the text", class_="bigjoin-quiet")


def _run(given: Explained) -> Iterator[Markup]:
    """Give what a run took, if there was one."""
    if given.stats is None:
        return
    stats = given.stats
    told = [f"{stats['tasks']['count']} tasks" if stats["tasks"]["count"] != 1 else "1 task"]
    told.append(f"{stats['tasks']['seconds']['max']:.2f} s the longest")
    if "exchanges" in stats:
        told.append(f"{stats['rounds']:,} rounds, {stats['exchanges']:,} exchanges, {stats['tuples']:,} tuples sent")
        told.append(
            f"a worker got {stats['load']['max']:,} tuples in a round at most, {about(stats['load']['mean'])} on average"
        )
    yield element("p", "In this run: ", "; ".join(told), ".")


def _picture(figure: Figure, title: str, caption: str = "") -> Markup:
    below = element("figcaption", caption, class_="bigjoin-quiet") if caption else Markup("")
    return element("figure", Markup(document(figure, title)), below)
