"""Explain a query: its meaning, its plan as rules and as loops to count, and, with data, what to expect and what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from textwrap import indent

from bigjoin.explained import Explained, ExplainedPart, ExplainedQuery, RunStats, explained
from bigjoin.languages.translate import as_rule, becomes
from bigjoin.query.delta import DeltaPlan
from bigjoin.query.expressions import attributes_of
from bigjoin.query.flags import FLAGS
from bigjoin.query.query import Query
from bigjoin.query.seeds import Seeds
from bigjoin.query.statement import Statement
from bigjoin.query.statistics import Statistics


def explain(
    statement: Statement | Query,
    statistics: Statistics | None = None,
    *,
    undirected: bool = False,
    delta: bool = False,
    strategy: str | None = None,
    stats: RunStats | None = None,
    held: Mapping[str, int] | None = None,
) -> str:
    """Return the explanation of a statement and of its delta queries; without statistics, a mid-sized graph is assumed.

    `held` says how many tuples of seeds the source has, by their relation.
    """
    return as_text(
        explained(statement, statistics, undirected=undirected, delta=delta, strategy=strategy, stats=stats, held=held)
    )


def as_text(given: Explained) -> str:
    """Return an explanation as text."""
    parts = [*_translation(given.statement, given.known), *(_explain(query, given) for query in given.queries)]
    if any(part.deltas for query in given.queries for part in query.parts):
        parts += _watched_as(given.statement)
    text = "\n\n".join(parts)
    return text if given.stats is None else "\n".join([text, "", *_analysis(given.stats)])


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


def _explain(asked: ExplainedQuery, given: Explained) -> str:
    """Return the explanation of one query; its sizes, if these are known and not assumed."""
    query, parts, known = asked.query, asked.parts, given.known
    first = parts[0].draft
    seeds = {one.relation for one in asked.given}
    read = {atom.read: atom for atom in first.query.positive if atom.relation not in seeds}
    lines = [str(asked.read_as[0] if len(asked.read_as) == 1 else query), "", f"matches: {matches_of(query)}"]
    if any(known.of(atom).symmetric for atom in read.values()):
        lines.append("the graph is undirected: edge(a, b) is edge(b, a)")
    for number, part in enumerate(parts, start=1):
        lines += ["", f"part {number} of {len(parts)}: {part.draft.query}"] if len(parts) > 1 else []
        lines += [*_rewriting(part), "", str(part.plan), "", "a count is", indent(str(part.counted), "  ")]
        if part.tails is not None:
            lines += ["", _factorized(part.draft.query, part.tails)]
        lines += ["", *_delta(part.deltas)] if part.deltas else []
    lines += _sharing(asked, given.strategy)
    if any("code(" in line for line in lines):
        lines += ["", "code() is bigjoin's own numbering, hubs first; comparisons without it are about your ids."]
    if asked.bound is not None:
        lines.append("")
        for atom in read.values():
            relation = known.of(atom)
            lists = max((entry.longest for entry in relation.lists.values()), default=0)
            sizes = ", ".join(f"{known.domains[d]:,} {d} values" for d in dict.fromkeys(relation.domains))
            name = f"{atom.read}" + " with edge ids" * (relation is not known.relation(atom))
            lines.append(f"{name}: {relation.tuples:,} tuples over {sizes}, longest list {lists:,}")
        lines += [_seeds(one.relation, one.seeds, given.held.get(one.relation, one.seeds.tuples)) for one in asked.given]
        what = "bindings of what must hold" if query.optional else "matches"
        lines.append(f"AGM bound: {asked.bound:,.0f} {what} at most")
    lines.append(f"fractional edge cover number {asked.cover:g}, edge packing number {asked.packing:g}")
    if given.strategy is not None:
        lines.append(f"strategy: {given.strategy}")
    return "\n".join(lines)


def _sharing(asked: ExplainedQuery, strategy: str | None) -> list[str]:
    """Say which of the prefixes that queries of a sum begin with are explored once, and by which strategy."""
    together = list(asked.trees)
    if not together:
        return []
    if strategy is not None and not strategy.startswith("shared"):
        return ["", "parts are answered one after the other: only the strategy shared explores what they begin with once"]
    lines = ["", f"under the strategy shared, parts are {' and '.join(together)} together, what they begin with once:"]
    for tree in dict.fromkeys(asked.trees.values()):
        lines.append(indent(str(tree), "  "))
    return lines


def _seeds(name: str, seeds: Seeds, held: int) -> str:
    """Say how many seeds there are, and how many of them the source has."""
    what = ("id" if len(seeds.attributes) == 1 else "tuple") + "s" * (seeds.tuples != 1)
    return f"{name}: {seeds.tuples:,} {what}" + f", of which the source has {held:,}" * (held < seeds.tuples)


def matches_of(query: Query) -> str:
    """Say what the flags make a match."""
    if not query.injective:
        return "every binding of the attributes that satisfies the atoms (homomorphisms)"
    added = (flag.meaning for flag in reversed(FLAGS) if getattr(query, flag.name))
    return "bindings whose vertices differ" + "".join(added)


def _factorized(query: Query, tails: Sequence[str]) -> str:
    """Return which columns of factorized matches are lists: that follows from the query alone."""
    terms = zip(query.columns, query.head, strict=True)
    columns = (f"list of {name}" if set(attributes_of(term)) & set(tails) else name for name, term in terms)
    return f"factorized, a row has {', '.join(columns)}"


def _delta(deltas: Sequence[DeltaPlan]) -> list[str]:
    """Return the delta queries, to list what updates change and to count it."""
    lines: list[str] = []
    for plans, what in zip(deltas, ("updates change the matches by", "and their number by"), strict=True):
        lines += [what, indent(str(plans), "  ")]
        lines += [line for line in _reads(plans) if line not in lines]
    return lines


def _watched_as(statement: Statement) -> list[str]:
    """Say how a watch reports groups, or rows that count once; nothing of other queries."""
    groupings = [stage.grouping for stage in statement.before] + [statement.grouping]
    bounds = [one.having for one in groupings if one is not None] + [stage.where for stage in statement.before]
    if any(one is not None for one in groupings) or statement.count_column is not None:
        bound = any(one is not None for one in bounds)
        told = "when it begins or ends to satisfy its condition" if bound else "as -1 and +1 when its row changes"
        return [f"a watch keeps all groups in memory, lists the matches that updates change, and reports a group {told}"]
    distinct = statement.deduplicate or any(stage.deduplicate for stage in statement.before)
    if not distinct and not (statement.query.deduplicate and statement.query.projects):
        return []
    kept = "a watch keeps in memory how many matches stand behind each row"
    return [f"{kept}, and reports a row as +1 with the first of them, and as -1 when the last is gone"]


def _reads(plans: DeltaPlan) -> list[str]:
    """Return what the marks of a delta plan's relations mean."""
    text = [
        "unmarked atoms read the new version; an epoch deletes first, so [old] has what it deletes and lacks what it inserts"
        if not plans.by_updates
        else "updates are told apart by their order: [either] reads both versions, [later] is what comes after the seed's tuple"
    ]
    if any(atom.negated for atom in plans.query.atoms) and not plans.by_updates:
        text.append("negated atoms read the other way round: half way through an epoch, all that it deletes and inserts")
    return text


def _rewriting(part: ExplainedPart) -> list[str]:
    """Return what a query becomes if its plan reads materialised relations, and what these are."""
    chosen, query = part.plan, part.draft.query
    steps = [e for step in chosen.steps for e in (*step.extenders, *step.checks)]
    read = dict.fromkeys(e.atom for e in (chosen.seed.extender, *chosen.seed.checks, *steps) if not e.atom.negated)
    stored = {str(atom.read): part.draft.statistics.relation(atom) for atom in read}
    lines = []
    for name, relation in stored.items():
        if relation.definition is not None:
            body = ", ".join(map(str, relation.definition.atoms))
            lists = max(relation.lists.values(), key=lambda entry: entry.typical)
            lines.append(
                f"with the stored {name}({', '.join(relation.definition.head)}) := {body}: {relation.tuples:,} tuples, "
                f"lists of {lists.typical:,.0f} where one is read, {lists.longest:,} the longest"
            )
    rule = f"{query.name}({', '.join(map(str, query.head))}) := {', '.join(map(str, read))}"
    return ["", f"rewritten: {rule}", *lines] if lines else []


def _analysis(stats: RunStats) -> list[str]:
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


def _spread(stats: RunStats) -> list[tuple[str, ...]]:
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
