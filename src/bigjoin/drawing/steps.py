"""The steps of a plan as panels: what is bound, what comes next, by which lists, and how much there is of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bigjoin.drawing.bars import BarGroup, SizeBar, bar_rows, largest
from bigjoin.drawing.figure import ROW_WIDTH, SMALL_SIZE, Figure, in_rows, lines_of_text, stacked
from bigjoin.drawing.pattern import PatternDrawing
from bigjoin.drawing.small_graph import DrawnEdge, SmallGraph, Tone
from bigjoin.explained import StepRun
from bigjoin.markup import joined
from bigjoin.planner.expected_sizes import ExpectedSizes
from bigjoin.query.plan import Extender, Plan, Step
from bigjoin.query.query import Atom

PANEL_WIDTH = 190.0
GRAPH_WIDTH = 250.0
"""The width of the pattern in a panel, at most, unless it could not be read then."""

MAX_PANELS = 16
"""Steps that are drawn; the others are told."""

MAX_PART_LINES = 6
"""Lines about one step."""

SIZE_NAME_WIDTH = 68.0
"""The width of the words before bars."""

OPERATORS_OF_LISTS = ("\u2229", "\u2212")
"""What stands before a list that is intersected with those before it, and before one that is subtracted."""


@dataclass(frozen=True)
class StepSizes:
    """How many prefixes and candidates a step has: expected ones and, after a run, real ones."""

    expected: ExpectedSizes | None
    run: StepRun | None = None

    def groups(self) -> list[BarGroup]:
        """Return the sizes as bars. Loops over all codes tell of no candidates."""
        found = []
        is_told = self.run is None or self.run.candidates or not self.run.prefixes
        for told in ("candidates", "prefixes") if is_told else ("prefixes",):
            bars = [SizeBar(getattr(self.expected, told), is_real=False)] if self.expected is not None else []
            bars += (
                [SizeBar(float(getattr(self.run, told)), text=f"{getattr(self.run, told):,}")] if self.run is not None else []
            )
            found.append(BarGroup(told, tuple(bars)))
        return found


def step_panels(plan: Plan, pattern: PatternDrawing, sizes: Sequence[StepSizes]) -> Figure:
    """Return a panel for the seed of a plan and one for each step; the pattern lies in the same places in all of them."""
    drawn = list(pattern.edges())
    graph = SmallGraph.of(pattern.vertices(), (edge for _, edge in drawn))
    most = largest(group for each in sizes for group in each.groups())
    bound: set[str] = set()
    panels: list[_Panel] = []
    steps: list[tuple[tuple[str, ...], list[str]]] = [(plan.seed.attributes, seed_lines(plan))]
    steps += [((step.attribute,), part_lines(step)) for step in plan.steps]
    for number, ((new, lines), each) in enumerate(zip(steps[:MAX_PANELS], sizes, strict=False), start=1):
        bound |= set(new)
        panels.append(
            _panel(number, new, lines, _toned(graph, drawn, bound, set(new), pattern).within(GRAPH_WIDTH), each.groups(), most)
        )
    height = max(panel.upper.height for panel in panels)
    row = in_rows([panel.figure(height) for panel in panels], most=max(ROW_WIDTH, *(panel.width for panel in panels)))
    left = [a for new, _ in steps[MAX_PANELS:] for a in new]
    told = [f"and {len(left)} more steps, by {', '.join(left)}"] if left else []
    return stacked([row, lines_of_text(told, most=ROW_WIDTH, quiet=True)])


@dataclass(frozen=True)
class _Panel:
    """A panel whose bars have still to be brought to the height of those beside it."""

    upper: Figure
    bars: Figure
    width: float

    def figure(self, height: float) -> Figure:
        gap = 12.0 if self.bars.height else 0.0
        drawn = joined(self.upper.markup, self.bars.at(0.0, height + gap))
        return Figure(drawn, max(self.width, self.bars.width), height + gap + self.bars.height)


def _panel(
    number: int, new: Sequence[str], lines: Sequence[str], graph: Figure, sizes: Sequence[BarGroup], most: float
) -> _Panel:
    title = f"{number}. {'the seed: ' if number == 1 else 'extend by '}{', '.join(new)}"
    width = max(PANEL_WIDTH, graph.width)
    if len(lines) > MAX_PART_LINES:
        lines = [*lines[: MAX_PART_LINES - 1], f"and {len(lines) - MAX_PART_LINES + 1} more"]
    parts = [
        lines_of_text([title], most=width, bold=True),
        Figure(graph.at((width - graph.width) / 2, 0.0), width, graph.height),
        lines_of_text(lines, most=width, size=SMALL_SIZE, mono=True, quiet=True),
    ]
    return _Panel(stacked(parts), bar_rows(sizes, most=most, length=width - 132, name_width=SIZE_NAME_WIDTH), width)


def _toned(
    graph: SmallGraph, drawn: Sequence[tuple[Atom, DrawnEdge]], bound: set[str], new: set[str], pattern: PatternDrawing
) -> Figure:
    """Return the pattern with what is bound, what is new, and what comes later."""

    def tone(attributes: set[str]) -> Tone:
        if not attributes <= bound:
            return "later"
        return "new" if attributes & new else ""

    tones: dict[str, Tone] = {name: tone({name}) for name in pattern.vertex_names}
    edges: list[Tone] = []
    for atom, edge in drawn:
        known = {a for a in atom.attributes if not (atom.negated and a not in pattern.query.bound)}
        found = tone(known)
        edges.append("negated" if edge.tone == "negated" and found != "later" else found)
        for name in (edge.source, edge.target):
            if name not in pattern.vertex_names:
                tones[name] = found
    return graph.toned(tones, edges).figure()


def seed_lines(plan: Plan) -> list[str]:
    """Return what the prefixes that a plan starts from satisfy."""
    seed = plan.seed
    return [str(part) for part in (seed.extender, *seed.checks, *seed.restrictions, *seed.filters)]


def part_lines(step: Step) -> list[str]:
    """Return what a new attribute has to satisfy: lists are intersected, and those of negated atoms subtracted."""
    lines = [_said(extender, i) for i, extender in enumerate(step.extenders)]
    lines += [f"{OPERATORS_OF_LISTS[1]} {str(e).removeprefix('not ')}" for e in step.excluders]
    return [*lines, *map(str, (*step.checks, *step.restrictions, *step.filters))]


def _said(extender: Extender, place: int) -> str:
    return f"{OPERATORS_OF_LISTS[0]} {extender}" if place else str(extender)
