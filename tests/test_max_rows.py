"""Very many rows: a warning before they are listed, and a bound that no result exceeds, under every strategy."""

from __future__ import annotations

import subprocess
import sys
import warnings
from itertools import pairwise

import pyarrow as pa
import pytest

from bigjoin import BigjoinError, Graph, RowLimitError, RowsWarning
from bigjoin.defaults import RunOptions, listing
from bigjoin.estimates import asked_drafts
from bigjoin.forecasts import _most_rows, check_rows
from bigjoin.indexing import build_index
from bigjoin.languages import read
from bigjoin.local.row_bound import RowBound
from tests.questions import Question
from tests.strategies import STRATEGIES

RUN = RunOptions(strategy="auto", workers=None, batch_size=None)


@pytest.fixture(scope="module")
def star(tmp_path_factory):
    """A hub with 3,000 neighbours: 9 million pairs of them, and 27 thousand million triples."""
    table = pa.table({"src": [0] * 3000, "dst": range(1, 3001)})
    return build_index(table, tmp_path_factory.mktemp("star") / "index")


def checked(index, text: str, flags: dict | None = None, **options) -> list[str]:
    """The warnings before the rows of a query are listed."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        check_rows(read(text, **(flags or {})), listing(RUN, **options), lambda _: index)
    return [str(one.message) for one in found if one.category is RowsWarning]


TRIPLES = "q(a,b,c,d) := edge(a,b), edge(a,c), edge(a,d)"


def test_many_rows_are_worth_a_warning(star, monkeypatch):
    (said,) = checked(star, TRIPLES)
    assert said.startswith("q has about 27,000,000,000 rows (95 %: 27,000,000,000 to 27,000,000,000): use limit or sample")
    assert checked(star, "q(a,b,c) := edge(a,b), edge(a,c)") == []
    monkeypatch.setenv("BIGJOIN_MANY_ROWS", "1e6")
    assert len(checked(star, "q(a,b,c) := edge(a,b), edge(a,c)")) == 1
    monkeypatch.setenv("BIGJOIN_MANY_ROWS", "few")
    with pytest.raises(BigjoinError, match="BIGJOIN_MANY_ROWS is a number of rows, such as 1e9, and not 'few'"):
        checked(star, TRIPLES)


@pytest.mark.parametrize("options", [{"limit": 5}, {"sample": 5}, {"factorized": True}, {"max_rows": 10**12}])
def test_there_is_no_warning_where_rows_are_few_or_allowed(star, options):
    assert checked(star, TRIPLES, **options) == []
    assert checked(star, f"MATCH (a)-[]->(b), (a)-[]->(c), (a)-[]->(d) RETURN a {'LIMIT 3' if options else ''}") == []


def test_rows_that_are_distinct_or_grouped_are_not_forecast(star):
    assert checked(star, "q(a) := edge(a,b), edge(a,c), edge(a,d)", {"deduplicate": True}) == []
    assert checked(star, "q(a, count(b)) := edge(a,b), edge(a,c), edge(a,d)") == []


def test_too_many_rows_are_refused_before_anything_runs(star):
    with pytest.raises(RowLimitError, match=r"q has about 27,000,000,000 rows .*, and max_rows is 1,000: use limit or sample"):
        checked(star, TRIPLES, max_rows=1000)
    with pytest.raises(BigjoinError, match="max_rows is -1; it must be at least 0"):
        checked(star, TRIPLES, max_rows=-1)


@pytest.mark.parametrize("seed", range(20))
def test_sizes_alone_bound_the_rows(seed, tmp_path):
    question = Question(3000 + seed)
    index = build_index(question.table(), tmp_path / "index", directed=question.directed)
    drafts = asked_drafts(read(question.text, **question.flags), lambda _: index)
    assert sum(_most_rows(draft) for draft, _ in drafts) >= question.wanted.total()


def test_tasks_end_once_all_of_them_have_too_many_rows(tmp_path):
    def batches(*sizes):
        return (pa.RecordBatch.from_pydict({"x": list(range(size))}) for size in sizes)

    bound = RowBound(10, tmp_path)
    first, second = bound.watched(batches(3, 2), 0), bound.watched(batches(4, 1, 1), 1)
    assert [next(one).num_rows for one in (first, second, first, second)] == [3, 4, 2, 1]
    with pytest.raises(RowLimitError, match="there are more than the 10 rows that max_rows allows"):
        next(second)
    again = bound.watched(batches(1), 1)  # a task that runs again starts from nothing
    assert next(again).num_rows == 1


@pytest.fixture(scope="module")
def graph(spark):
    """Steps of 1, 2 and 9 round a circle of 12: each order of the three leads back, from every vertex."""
    with Graph([pair for a in range(12) for pair in pairwise((a, (a + 1) % 12, (a + 3) % 12, a))], spark=spark) as made:
        yield made


@pytest.mark.spark
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_result_has_more_rows_than_allowed(graph, strategy, tmp_path, monkeypatch):
    monkeypatch.setattr("bigjoin.verbs.check_rows", lambda *_: None)  # a forecast that is wrong
    rows = 6 * 12
    assert graph.find("3-cycle", max_rows=rows, strategy=strategy).count() == rows
    assert graph.write("3-cycle", tmp_path / "all.csv", max_rows=rows, strategy=strategy) == rows
    with pytest.raises(Exception, match=f"there are more than the {rows - 1} rows"):
        graph.find("3-cycle", max_rows=rows - 1, strategy=strategy).collect()
    with pytest.raises(RowLimitError):
        graph.write("3-cycle", tmp_path / "some.csv", max_rows=rows - 1, strategy=strategy)
    assert not (tmp_path / "some.csv").exists()
    with pytest.raises(Exception, match="more than the 2 rows"):
        for _ in graph.pieces("3-cycle", ".arrow", max_rows=2, limit=5, strategy=strategy):
            pass


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "flags", "rows"),
    [
        ("q(a) := edge(a,b)", {"deduplicate": True}, 12),
        pytest.param("(a)-[*1..2]->(b)", {}, 36 + 108, marks=pytest.mark.slow),
        ("q(a, b) := edge*1..2(a, b)", {}, 36 + 108),
        pytest.param("q(a,b,c) := edge(a,b), optional edge(c,b)", {}, 108, marks=pytest.mark.slow),
        pytest.param(
            "MATCH (a)-[]->(b) WHERE EXISTS { (b)-[]->(c)-[]->(d) } RETURN a ORDER BY a", {}, 36, marks=pytest.mark.slow
        ),
    ],
)
def test_rows_that_are_put_together_are_bounded_too(graph, text, flags, rows, monkeypatch, tmp_path):
    monkeypatch.setattr("bigjoin.verbs.check_rows", lambda *_: None)
    assert graph.find(text, max_rows=rows, **flags).count() == rows
    with pytest.raises(Exception, match=f"there are more than the {rows - 1} rows"):
        graph.find(text, max_rows=rows - 1, **flags).collect()
    with pytest.raises(RowLimitError):
        graph.write(text, tmp_path / "some.json", max_rows=rows - 1, **flags)
    assert not list(tmp_path.iterdir())


def test_the_command_refuses(tmp_path):
    source = tmp_path / "edges.txt"
    source.write_text("".join(f"0 {n}\n" for n in range(1, 2000)))
    code = "import sys; sys.argv[0] = 'bigjoin'; from bigjoin.cli.main import main; main()"
    query = "q(a,b,c) := edge(a,b), edge(a,c)"
    spark = "import bigjoin.cli.source as s; s.start_spark = lambda *_: None; "
    command = [sys.executable, "-c", spark + code, "find", query, str(source), "--max-rows", "10", "--quiet"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert "q has about 4,000,000 rows" in found.stderr
