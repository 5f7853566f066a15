"""Several relations of any arity: nothing in query, planner or join knows that a graph has one, with two columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigjoin.errors import QueryError
from bigjoin.index.dictionary import Dictionary, ranks_of
from bigjoin.index.trie import Trie, build_trie
from bigjoin.joins.bind import bind
from bigjoin.languages import parse
from bigjoin.planner import plan
from bigjoin.query.read import Read
from bigjoin.query.statistics import RelationStatistics, Statistics
from tests.executions import locally, plain
from tests.oracles import naive

ARITY = {"u": 1, "v": 1, "r": 2, "s": 2, "t": 3}
IDS = [30, 10, 20, 40]


@dataclass
class InMemory:
    """Relations over one domain, indexed as they are asked for."""

    relations: dict[str, set[tuple]]
    statistics: Statistics = field(init=False)

    def __post_init__(self):
        self.dictionaries = {"id": Dictionary(pa.array(IDS), ranks_of(pa.array(IDS)))}
        self.statistics = Statistics(
            {
                name: RelationStatistics(("id",) * ARITY[name], len(tuples), loops=sum(len(set(t)) == 1 for t in tuples))
                for name, tuples in self.relations.items()
            },
            {"id": len(IDS)},
        )

    def extensions(self, read: Read, columns: tuple[int, ...]) -> Trie:
        tuples = sorted(self.relations[read.relation])
        return build_trie([np.array([IDS.index(t[c]) for t in tuples], np.uint32) for c in columns], len(IDS))


@st.composite
def questions(draw):
    relations = {
        name: draw(st.sets(st.tuples(*[st.sampled_from(IDS)] * arity), min_size=1, max_size=9)) for name, arity in ARITY.items()
    }
    names = "abcd"[: draw(st.integers(1, 4))]
    atoms = draw(st.lists(st.sampled_from(sorted(ARITY)), min_size=1, max_size=4))
    body = [f"{r}({','.join(draw(st.sampled_from(names)) for _ in range(ARITY[r]))})" for r in atoms]
    bound = sorted({a for atom in body for a in atom[2:-1].split(",")})
    negated = draw(st.sampled_from([None, *ARITY]))
    if negated:
        body.append(f"not {negated}({','.join(draw(st.sampled_from(bound)) for _ in range(ARITY[negated]))})")
    if draw(st.booleans()):
        body.append(
            f"{draw(st.sampled_from(bound))} {draw(st.sampled_from(['<', '=', '!=', '>=']))} {draw(st.sampled_from(bound))}"
        )
    return (
        relations,
        f"q({','.join(bound)}) := {', '.join(body)}",
        draw(st.sampled_from([{}, {"distinct": True}, {"unique": True}])),
    )


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(questions(), st.randoms(use_true_random=False), st.sampled_from([1, 3, 1000]))
def test_rows_are_those_of_the_definition(question, random, batch_size):
    relations, text, flags = question
    query = parse(text, cross_product=True, **flags)
    wanted = naive.matches(relations, *plain(query), **flags)
    index = InMemory(relations)
    for order in (None, tuple(random.sample(query.attributes, len(query.attributes)))):
        found = locally(bind(plan(query, index.statistics, order=order), index), index, batch_size=batch_size, parts=2)
        if query.unique:
            group = naive.automorphisms(*plain(query))
            found = [min(tuple(row[i] for i in image) for image in group) for row in found]
        assert sorted(found) == sorted(wanted), order


def test_values_of_different_domains_do_not_meet():
    person, city = RelationStatistics(("person", "city"), 3), RelationStatistics(("person", "person"), 3)
    statistics = Statistics({"lives": person, "knows": city}, {"person": 3, "city": 2})
    for text, message in [
        ("q(a,b,c) := lives(a,b), knows(b,c)", "'b' is a city elsewhere, and a person here"),
        ("q(a,b) := lives(a,b), a < b", "'a < b' compares values of different domains"),
    ]:
        with pytest.raises(QueryError, match=message):
            plan(parse(text), statistics)


def test_an_order_must_be_one_of_the_attributes():
    index = InMemory({"r": {(10, 20)}})
    with pytest.raises(ValueError, match="is not one of the attributes"):
        plan(parse("q(a,b) := r(a,b)"), index.statistics, order=("a", "z"))
