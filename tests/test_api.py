"""The public names: what `import bigjoin` offers, with which types, and that what had another name still works."""

from __future__ import annotations

import inspect
from importlib.resources import files
from typing import get_args

import pandas as pd
import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin import defaults, errors
from bigjoin.languages import parse
from tests import typed_client

UPDATES = pa.table({"src": [3], "dst": [1], "op": ["+"]})


@pytest.fixture
def graph(tmp_path):
    with bj.Graph(pa.table({"src": [1, 2], "dst": [2, 3]})) as made:
        yield made


def test_every_public_name_is_listed_and_can_be_imported():
    assert set(bj.__all__) <= set(dir(bj))
    for name in bj.__all__:
        assert getattr(bj, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Grpah'"):
        _ = bj.Grpah


def test_every_error_that_a_user_can_meet_is_public():
    known = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, errors.BigjoinError)}
    assert known | {"StreamError"} <= set(bj.__all__)
    assert issubclass(bj.StreamError, bj.BigjoinError)


def test_types_are_published():
    assert (files("bigjoin") / "py.typed").is_file()


def test_strategies_have_one_table():
    assert get_args(bj.StrategyName) == ("auto", *defaults.STRATEGIES)


@pytest.mark.parametrize(
    "given",
    [
        lambda graph: graph.apply(UPDATES, "3-cycle"),
        lambda graph: graph.apply("3-cycle", UPDATES),
        lambda graph: graph.apply(parse("3-cycle"), UPDATES.to_pandas()),
        lambda graph: graph.apply({"3-cycle": "3-cycle"}, UPDATES),
        lambda graph: graph.apply(queries="3-cycle", updates=UPDATES),
        lambda graph: graph.apply(UPDATES, queries={"3-cycle": parse("3-cycle")}),
    ],
)
def test_updates_and_queries_come_in_either_order(graph, given):
    epoch = given(graph)
    assert (epoch.created, epoch.count, graph.edge_count) == (3, 3, 3)


@pytest.mark.parametrize("path", [str, lambda file: file])
def test_so_do_paths_of_updates(graph, tmp_path, path):
    file = tmp_path / "updates.csv"
    pd.DataFrame(UPDATES.to_pydict()).to_csv(file, index=False)
    assert graph.apply(path(file), "3-cycle").count == 3
    assert graph.apply(parse("3-cycle"), path(file)).count == 3
    with pytest.raises(bj.BigjoinError, match="there are no updates"):
        graph.apply({"cycles": "3-cycle"})


def test_old_names_of_a_graph_s_size_still_work(graph):
    with pytest.warns(DeprecationWarning, match="vertex_count"):
        assert graph.vertices == graph.vertex_count == 3
    with pytest.warns(DeprecationWarning, match="edge_count"):
        assert graph.edges == graph.edge_count == 2


@pytest.mark.spark
def test_a_copy_for_another_session_leaves_the_original_as_it_is(spark, tmp_path):
    other = spark.newSession()
    table = pa.table({"a": [1, 2], "b": [2, 3]})
    for made, query in (
        (bj.Graph(table, spark=spark), "2-path"),
        (bj.Relations({"r": table}, spark=spark), "q(a,c) := r(a,b), r(b,c)"),
    ):
        copy = made.on(other)
        assert (made.spark, copy.spark) == (spark, other)
        assert made.count(query) == copy.count(query) == 1
        copy.close()
        assert made.find(query).count() == 1
        made.close()


@pytest.mark.spark
def test_streams_take_queries_and_updates_in_either_order(spark, tmp_path):
    folder = tmp_path / "updates"
    folder.mkdir()
    spark.createDataFrame([(3, 1, "+")], "src long, dst long, op string").write.parquet(str(folder / "1"))
    stream = spark.readStream.schema("src long, dst long, op string").parquet(str(folder / "1"))
    options = {"trigger": {"availableNow": True}}
    for number, given in enumerate([{"queries": "3-cycle", "updates": stream}, (stream, "3-cycle"), ("3-cycle", stream)]):
        with bj.Graph(pa.table({"src": [1, 2], "dst": [2, 3]}), spark=spark) as graph:
            output = tmp_path / f"out-{number}"
            arguments, named = ((), given) if isinstance(given, dict) else (given, {})
            graph.watch(*arguments, **named, output=output, **options).awaitTermination()
            assert graph.count("3-cycle") == 3
    with pytest.raises(bj.BigjoinError, match="updates is a str; give a streaming DataFrame"):
        bj.Graph(pa.table({"src": [1], "dst": [2]}), spark=spark).watch("triangle", "updates.csv")


@pytest.mark.spark
def test_a_typed_program_runs(spark, tmp_path):
    assert typed_client.main(tmp_path) == [
        "4 vertices, 4 edges, directed: False",
        "1 triangles by shared, in 1 round",
        "1",
        "1 at vertex 3",
        "q(a, b) := edge(a, b)",
        "epoch 1: +1 -0, now 2",
        "did you mean 'triangle'?",
        "3 3",
        "3",
    ]
