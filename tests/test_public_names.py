"""What is public: these names and no others, each with a docstring; and nothing that users read imports anything else."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin import generators, graphframes

ROOT = Path(__file__).parents[1]

PUBLIC = re.findall(
    r"\w+",
    """
    BigjoinError Count DisconnectedError Drawing Epoch Estimate Explanation GeneratorError Graph Index IndexFormatError
    LostError NeedsSparkError OptionError OutputError Query QueryCancelledError QueryError QueryMemoryError QueryTimeoutError
    ReadingWarning Relations RowLimitError RowsWarning SessionError SourceError Stats StrategyName StreamError
    UnknownQueryError WatchedEpochs __version__ build_index draw join read_output register session sql
    """,
)

VERBS = re.findall(
    r"\w+",
    """
    apply arrow close count directed draw_degrees edge_count estimate exists explain find flush index materialize on open pieces
    plan
    replay scratch_bytes show spark statistics_for undirected vertex_count watch write
    """,
)
"""What a graph has."""

PUBLIC_MODULES = {"bigjoin", "bigjoin.graphframes", "bigjoin.generators"}

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_the_public_names_are_these():
    assert sorted(bj.__all__) == sorted(PUBLIC)
    assert dir(bj) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_is(name):
    value = getattr(bj, name)
    if name not in ("__version__", "StrategyName"):
        assert inspect.getdoc(value), name
        assert value.__doc__, f"{name} only inherits its docstring"
    else:
        assert value


@pytest.mark.parametrize("module", [graphframes, generators], ids=lambda module: module.__name__)
def test_public_modules_say_what_they_have(module):
    assert module.__doc__
    for name in module.__all__:
        assert getattr(module, name).__doc__, name


def test_a_graph_shows_its_verbs_and_no_internals():
    with bj.Graph(pa.table({"src": [1], "dst": [2]})) as graph:
        shown = [name for name in dir(graph) if not name.startswith("_")]
        assert shown == VERBS
        for name in set(VERBS) - {"index"}:
            assert inspect.getdoc(getattr(type(graph), name)), name
    with bj.Relations({"r": pa.table({"a": [1], "b": [2]})}) as relations:
        ours = {"schema", "readings"}
        graphs = {"apply", "directed", "draw_degrees", "edge_count", "flush", "index", "materialize", "open", "undirected"}
        graphs |= {"replay", "vertex_count", "watch"}
        assert {name for name in dir(relations) if not name.startswith("_")} == set(VERBS) - graphs | ours


def test_the_tab_key_shows_the_same():
    """In IPython, whatever it completes with."""
    program = """if True:
        import json, sys
        from IPython.core.completer import provisionalcompleter
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell()
        shell.run_cell("import bigjoin as bj; graph = bj.Graph([(1, 2)])")
        found = {}
        for use_jedi in (False, True):
            shell.Completer.use_jedi = use_jedi
            for text in ("bj.", "graph."):
                with provisionalcompleter():
                    names = [one.text for one in shell.Completer.completions(text, len(text))]
                found[f"{text}{use_jedi}"] = sorted({name.removeprefix(text).removeprefix(".") for name in names})
        json.dump(found, sys.stdout)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    for asked, names in json.loads(done.stdout).items():
        wanted = PUBLIC if asked.startswith("bj.") else VERBS
        assert [name for name in names if not name.startswith("_")] == [n for n in wanted if not n.startswith("_")], asked


def code_of_users() -> list:
    """The Python that users read: examples, cells of notebooks, blocks of pages."""
    found = [pytest.param(path.read_text(), id=f"examples/{path.name}") for path in EXAMPLES]
    for path in NOTEBOOKS:
        cells = (cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code")
        found.append(pytest.param("\n".join("".join(cell["source"]) for cell in cells), id=path.name))
    for path in PAGES:
        if blocks := re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL):
            found.append(pytest.param("\n".join(blocks), id=str(path.relative_to(ROOT))))
    return found


@pytest.mark.parametrize("code", code_of_users())
def test_users_import_nothing_private(code):
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = {alias.name for alias in node.names if alias.name.split(".")[0] == "bigjoin"}
            assert named <= PUBLIC_MODULES
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bigjoin":
            assert node.module in PUBLIC_MODULES
            known = sys.modules[node.module].__all__
            assert {alias.name for alias in node.names} <= {*known, *(m.partition(".")[2] for m in PUBLIC_MODULES)}
        elif isinstance(node, ast.Attribute):
            assert not re.match(r"_(?!_|repr_html_|exit$)", node.attr), node.attr  # os._exit is public
            if isinstance(node.value, ast.Name) and node.value.id in ("bj", "bigjoin"):
                assert node.attr in PUBLIC, node.attr
