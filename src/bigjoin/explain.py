"""Explain a query: its meaning, its plan as rules and as loops to count, and, with data, what to expect and what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from textwrap import indent
from typing import Any

from bigjoin.errors import QueryError
from bigjoin.languages.translate import as_rule, assumed_for, becomes
from bigjoin.planner import count_plan, delta_plan, factorized_plan, meaning, plan, plan_tree
from bigjoin.planner.agm import agm_bound, cover_number, packing_number
from bigjoin.planner.draft import Draft
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.expressions import attributes_of
from bigjoin.query.flags import FLAGS
from bigjoin.query.plan import Plan
from bigjoin.query.query import Query
from bigjoin.query.seeds import Seeds
from bigjoin.query.spelled_out import spelled_out
from bigjoin.query.statement import Statement
from bigjoin.query.statistics import Statistics


def explain(
    statement: Statement | Query,
    statistics: Statistics | None = None,
    *,
    undirected: bool = False,
    delta: bool = False,
    strategy: str | None = None,
    stats: dict[str, Any] | None = None,
    held: Mapping[str, int] | None = None,
) -> str:
    """Return the explanation of a statement and of its delta queries; without statistics, a mid-sized graph is assumed.

    `held` says how many tuples of seeds the source has, by their relation.
    """
    asked = Statement.of(statement) if isinstance(statement, Query) else statement
    if asked.unread is not None:
        hint = "name a SOURCE, or the tables with --relation NAME=PATH"
        raise QueryError("what a SELECT means depends on its tables", hint=hint)
    assumed = assumed_for(asked, symmetric=undirected)
    known = statistics or assumed
    explained = [
        _explain(block.query, known, held or {}, delta=delta, strategy=strategy, is_known=statistics is not None)
        for block in asked.everything
    ]
    text = "\n\n".join([*_translation(asked, known), *explained])
    return text if stats is None else "\n".join([text, "", *_analysis(stats)])


def _translation(statement: Statement, statistics: Statistics) -> list[str]:
    """Return a text in another language, and what it means: rules, and what becomes of their rows."""
    if statement.language not in ("motif", "cypher", "sql"):
        rows = becomes(statement) if statement.grouping is not None or statement.order or statement.limit is not None else []
        return ["\n".join(["the rows below become", *(f"  {line}" for line in rows)])] if rows else []
    return [
        "\n".join(
            [" ".join(statement.text.split()), "means", *(f"  {line}" for line in as_rule(statement, statistics).splitlines())]
        )
    ]


def _explain(
    query: Query, known: Statistics, held: Mapping[str, int], *, delta: bool, strategy: str | None, is_known: bool
) -> str:
    """Return the explanation of one query; its sizes, if these are known and not assumed."""
    parts = meaning(query, known)
    given = [one for one in parts[0].given if one.rows_of is None]
    seeds = {one.relation for one in given}
    read = {atom.read: atom for atom in parts[0].query.positive if atom.relation not in seeds}
    read_as = spelled_out(query, known)
    lines = [str(read_as[0] if len(read_as) == 1 else query), "", f"matches: {_matches(query)}"]
    if any(known.of(atom).symmetric for atom in read.values()):
        lines.append("the graph is undirected: edge(a, b) is edge(b, a)")
    for number, part in enumerate(parts, start=1):
        lines += ["", f"part {number} of {len(parts)}: {part.query}"] if len(parts) > 1 else []
        chosen = plan(part)
        lines += [*_rewriting(part, chosen), "", str(chosen), "", "a count is", indent(str(count_plan(part)), "  ")]
        if len(parts) == 1 and not (query.projects or query.optional):
            lines += ["", _factorized(part)]
        lines += ["", *_delta(part)] if delta else []
    lines += _sharing(parts, strategy)
    if any("code(" in line for line in lines):
        lines += ["", "code() is bigjoin's own numbering, hubs first; comparisons without it are about your ids."]
    if is_known:
        lines.append("")
        for atom in read.values():
            relation = known.of(atom)
            lists = max((entry.longest for entry in relation.lists.values()), default=0)
            sizes = ", ".join(f"{known.domains[d]:,} {d} values" for d in dict.fromkeys(relation.domains))
            name = f"{atom.read}" + " with edge ids" * (relation is not known.relation(atom))
            lines.append(f"{name}: {relation.tuples:,} tuples over {sizes}, longest list {lists:,}")
        lines += [_seeds(one.relation, one.seeds, held.get(one.relation, one.seeds.tuples)) for one in given]
        what = "bindings of what must hold" if query.optional else "matches"
        bound = agm_bound(query, known) if query.optional else sum(agm_bound(read, known) for read in read_as)
        lines.append(f"AGM bound: {bound:,.0f} {what} at most")
    largest = max(parts, key=lambda part: len(part.query.positive)).query
    cover, packing = cover_number(largest), packing_number(largest)
    lines.append(f"fractional edge cover number {cover:g}, edge packing number {packing:g}")
    if strategy is not None:
        lines.append(f"strategy: {strategy}")
    return "\n".join(lines)


def _sharing(parts: Sequence[Draft], strategy: str | None) -> list[str]:
    """Say which of the prefixes that queries of a sum begin with are explored once, and by which strategy."""
    trees = {"found": plan_tree(parts, counting=False), "counted": plan_tree(parts, counting=True)}
    together = [what for what, tree in trees.items() if tree is not None]
    if not together:
        return []
    if strategy is not None and not strategy.startswith("shared"):
        return ["", "parts are answered one after the other: only the strategy shared explores what they begin with once"]
    lines = ["", f"under the strategy shared, parts are {' and '.join(together)} together, what they begin with once:"]
    for tree in dict.fromkeys(tree for tree in trees.values() if tree is not None):
        lines.append(indent(str(tree), "  "))
    return lines


def _seeds(name: str, seeds: Seeds, held: int) -> str:
    """Say how many seeds there are, and how many of them the source has."""
    what = ("id" if len(seeds.attributes) == 1 else "tuple") + "s" * (seeds.tuples != 1)
    return f"{name}: {seeds.tuples:,} {what}" + f", of which the source has {held:,}" * (held < seeds.tuples)


def _matches(query: Query) -> str:
    """Say what the flags make a match."""
    if not query.injective:
        return "every binding of the attributes that satisfies the atoms (homomorphisms)"
    added = (flag.meaning for flag in reversed(FLAGS) if getattr(query, flag.name))
    return "bindings whose vertices differ" + "".join(added)


def _factorized(part: Draft) -> str:
    """Return which columns of factorized matches are lists: that follows from the query alone."""
    tails = factorized_plan(part).tails
    terms = zip(part.query.columns, part.query.head, strict=True)
    columns = (f"list of {name}" if set(attributes_of(term)) & set(tails) else name for name, term in terms)
    return f"factorized, a row has {', '.join(columns)}"


def _delta(part: Draft) -> list[str]:
    """Return the delta queries, to list what updates change and to count it."""
    lines: list[str] = []
    for listing, what in ((True, "updates change the matches by"), (False, "and their number by")):
        plans = delta_plan(part.query, part.statistics, listing=listing)
        lines += [what, indent(str(plans), "  ")]
        lines += [line for line in _reads(plans) if line not in lines]
    return lines


def _reads(plans: DeltaPlan) -> list[str]:
    """Return what the marks of a delta plan's relations mean."""
    text = [
        "unmarked atoms read the new version; an epoch deletes first, so [old] has what it deletes and lacks what it inserts"
        if not plans.by_updates
        else "updates are told apart by their order: [either] reads both versions, [later] is what comes after the seed's tuple"
    ]
    if plans.consolidates:
        text.append("a match that an epoch both creates and destroys is not reported")
    return text


def _rewriting(part: Draft, chosen: Plan) -> list[str]:
    """Return what a query becomes if its plan reads materialised relations, and what these are."""
    steps = [e for step in chosen.steps for e in (*step.extenders, *step.checks)]
    read = dict.fromkeys(e.atom for e in (chosen.seed.extender, *chosen.seed.checks, *steps) if not e.atom.negated)
    stored = {str(atom.read): part.statistics.relation(atom) for atom in read}
    lines = []
    for name, relation in stored.items():
        if relation.definition is not None:
            body = ", ".join(map(str, relation.definition.atoms))
            lists = max(relation.lists.values(), key=lambda entry: entry.typical)
            lines.append(
                f"with the stored {name}({', '.join(relation.definition.head)}) := {body}: {relation.tuples:,} tuples, "
                f"lists of {lists.typical:,.0f} where one is read, {lists.longest:,} the longest"
            )
    rule = f"{part.query.name}({', '.join(map(str, part.query.head))}) := {', '.join(map(str, read))}"
    return ["", f"rewritten: {rule}", *lines] if lines else []


def _analysis(stats: dict[str, Any]) -> list[str]:
    """Return what each step did as a table, and what the execution took."""
    spread = "exchanges" in stats
    rows: list[tuple[str, ...]] = [("step" if spread else "sum", "over", "candidates", "prefixes")]
    for number, step in enumerate(stats["steps"]):
        part = number if spread else step["term"]
        rows.append((str(part + 1), step["attribute"], f"{step['candidates']:,}", f"{step['prefixes']:,}"))
    lines = _table(rows)
    if spread:
        return [*lines, "", *_table(_spread(stats))]
    seconds = stats["tasks"]["seconds"]
    busy = seconds["mean"] / seconds["max"] if seconds["max"] else 1.0
    lines.append(
        f"{stats['tasks']['count']} tasks, {seconds['max']:.2f} s the longest, {busy:.0%} busy; "
        f"{stats['peak_memory'] / 2**20:,.0f} MB a task"
    )
    return lines


def _spread(stats: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the figures of an execution with exchanges: the paper's rounds, communication, load and memory."""
    load, index, waiting = stats["load"], stats["index_tuples"], stats["waiting"]
    rows: list[tuple[str, ...]] = [
        ("rounds", f"{stats['rounds']:,}"),
        ("exchanges", f"{stats['exchanges']:,}"),
        ("tuples sent", f"{stats['tuples']:,}"),
        ("bytes sent", f"{stats['bytes']:,}"),
        ("load of a worker in a round, max", f"{load['max']:,}"),
        ("load of a worker in a round, mean", f"{load['mean']:,.0f}"),
        ("critical path, tuples", f"{stats['critical_path']:,}"),
        ("index tuples of a worker, max", f"{index['max']:,}"),
        ("index tuples of a worker, mean", f"{index['mean']:,.0f}"),
        ("waiting on disk at most, prefixes", f"{waiting['prefixes']:,}"),
        ("waiting on disk at most, bytes", f"{waiting['bytes']:,}"),
        ("memory of a process at most, MB", f"{stats['peak_memory'] / 2**20:,.0f}"),
    ]
    if "balance" in stats:
        balance, workers = stats["balance"], stats["workers"]
        lookups = balance["lookups"]
        needed = max(workers, log2(max(2.0, balance["input"] * max(1.0, stats["agm"]))))
        rows += [
            ("B, candidates of a batch at most", f"{balance['batch']:,}"),
            ("B' / w, where theorem 3.4 asks for", f"{balance['batch'] / workers**2:,.0f}, {needed:,.0f}"),
            ("dealt to one worker more than to another", f"{balance['dealt']:,}"),
            (
                "requests to a worker in a full batch, of B' or the mean",
                "no batch was full" if lookups is None else f"{lookups:.2f}",
            ),
            ("prefixes that a batch gave a step, of B", f"{balance['new']:.2f}"),
            ("prefixes waiting at a step, of B", f"{balance['waiting']:.2f}"),
        ]
    return rows


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
