"""Explain a query: its meaning, its plan as rules and as loops to count, and, with data, what to expect and what happened."""

from __future__ import annotations

from typing import Any

from bigjoin.planner import count_plan, plan
from bigjoin.planner.agm import agm_bound
from bigjoin.query.query import Property, Query
from bigjoin.query.statistics import Statistics, assumed_graph

_MEANING = {
    (False, False, False): "every binding of the attributes that satisfies the atoms (homomorphisms)",
    (True, False, False): "bindings whose vertices differ",
    (True, True, False): "bindings whose vertices differ, one for each class under the query's automorphisms",
    (True, False, True): "bindings whose vertices differ, with no other edge among them",
    (True, True, True): "bindings whose vertices differ, with no other edge among them, one for each class under the "
    "query's automorphisms",
}


def explain(
    query: Query,
    statistics: Statistics | None = None,
    *,
    undirected: bool = False,
    strategy: str | None = None,
    stats: dict[str, Any] | None = None,
) -> str:
    """Return the explanation of a query, as text; without statistics, a middling graph is assumed."""
    terms = [*query.head, *(term for comparison in query.filters for term in comparison.properties)]
    properties = [term.name for term in terms if isinstance(term, Property)]
    known = statistics or assumed_graph(symmetric=undirected, properties=properties)
    read = {(atom.relation, len(atom.attributes)): atom for atom in query.positive}
    plan_text = str(plan(query, known))
    lines = [str(query), "", f"matches: {_MEANING[query.injective, query.unique, query.induced]}"]
    if any(known.of(atom).symmetric for atom in read.values()):
        lines.append("the graph is undirected: edge(a, b) is edge(b, a)")
    lines += ["", plan_text, "", "a count is", *(f"  {line}" for line in str(count_plan(query, known)).splitlines())]
    if any("code(" in line for line in lines):
        lines += ["", "code() is bigjoin's own numbering, hubs first; comparisons without it are about your ids."]
    if statistics is not None:
        lines.append("")
        for atom in read.values():
            relation = statistics.of(atom)
            lists = max((entry.longest for entry in relation.lists.values()), default=0)
            sizes = ", ".join(f"{statistics.domains[d]:,} {d} values" for d in dict.fromkeys(relation.domains))
            name = atom.relation + " with edge ids" * (relation is not statistics.relations[atom.relation])
            lines.append(f"{name}: {relation.tuples:,} tuples over {sizes}, longest list {lists:,}")
        lines.append(f"AGM bound: {agm_bound(query, statistics):,.0f} matches at most")
    if strategy is not None:
        lines.append(f"strategy: {strategy}")
    if stats is not None:
        lines += ["", *_analysis(stats)]
    return "\n".join(lines)


def _analysis(stats: dict[str, Any]) -> list[str]:
    rows = [("sum", "over", "candidates", "prefixes")]
    rows += [
        (str(step["term"] + 1), step["attribute"], f"{step['candidates']:,}", f"{step['prefixes']:,}")
        for step in stats["steps"]
    ]
    widths = [max(len(row[c]) for row in rows) for c in range(4)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    seconds = stats["tasks"]["seconds"]
    busy = seconds["mean"] / seconds["max"] if seconds["max"] else 1.0
    lines.append(
        f"{stats['tasks']['count']} tasks, {seconds['max']:.2f} s the longest, {busy:.0%} busy; "
        f"{stats['peak_memory'] / 2**20:,.0f} MB a task"
    )
    return lines
