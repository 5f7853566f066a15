"""The bar that a notebook shows: for what takes long and nothing else, in one display that is empty in the end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bigjoin as bj
from bigjoin import notebook
from bigjoin.notebook import progress_bar, shown_while_read, with_progress

EDGES = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})


class Shell:
    """Stands for the shell of an IPython kernel, and keeps what is displayed."""

    kernel, execution_count = object(), 1

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, bool]] = []
        """Display, HTML, and whether it replaces what the display has shown."""
        self.display_pub = SimpleNamespace(publish=self.publish)

    def publish(self, data, *, transient, update) -> None:
        assert data.keys() == {"text/html", "text/plain"}
        self.shown.append((transient["display_id"], data["text/html"], update))

    @property
    def stages(self) -> set[str]:
        """What bars have said that is being done."""
        return {html.partition("</progress> ")[2].partition(":")[0] for _, html, _ in self.shown if html}


@pytest.fixture
def shell(monkeypatch):
    """A notebook in which bars do not wait."""
    found = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: found, __file__="IPython/__init__.py"))
    monkeypatch.setattr(notebook, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(notebook, "REDRAW_SECONDS", 0.01)
    monkeypatch.delenv(notebook.PROGRESS_VARIABLE, raising=False)
    return found


def wait_for(condition) -> None:
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    assert condition()


def test_a_bar_is_one_display_that_is_empty_in_the_end(shell):
    with progress_bar("counting <all>") as bar:
        wait_for(lambda: shell.shown)
        bar.share(0.25)
        wait_for(lambda: shell.shown[-1][1] == '<progress max="1" value="0.250"></progress> counting &lt;all&gt;: 25%, 0 s')
        bar.share(7.0)
        wait_for(lambda: "100%" in shell.shown[-1][1])
    displays, htmls, updates = zip(*shell.shown, strict=True)
    assert len(set(displays)) == 1
    assert htmls[0] == '<progress max="1"></progress> counting &lt;all&gt;: 0 s'
    assert htmls[-1] == ""
    assert updates == (False, *[True] * (len(updates) - 1))
    ended = len(shell.shown)
    time.sleep(0.05)
    assert len(shell.shown) == ended


def test_what_is_quick_shows_nothing(shell, monkeypatch):
    monkeypatch.setattr(notebook, "DELAY_SECONDS", 60.0)
    started = time.monotonic()
    with bj.Graph(EDGES) as graph:
        assert graph.count("3-cycle", strategy="local") == 3
    assert shell.shown == []
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("value", ["0", "off", "OFF", "no", "false"])
def test_bars_can_be_turned_off(shell, monkeypatch, value):
    monkeypatch.setenv(notebook.PROGRESS_VARIABLE, value)
    with progress_bar("counting") as bar:
        assert bar is None


@pytest.mark.parametrize("shown", [None, SimpleNamespace(), SimpleNamespace(kernel=None)])
def test_there_is_no_bar_outside_of_notebooks(monkeypatch, shown):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shown))
    with progress_bar("counting") as bar:
        assert bar is None


def test_nothing_imports_ipython():
    program = (
        "import sys, bigjoin as bj, pyarrow as pa; graph = bj.Graph(pa.table({'src': [1, 2], 'dst': [2, 1]})); "
        "print(graph.count('2-path', strategy='local'), 'IPython' in sys.modules, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["2", "False", "False"]


def test_a_step_inside_a_longer_one_has_no_bar_of_its_own(shell):
    with progress_bar("explaining") as outer:
        wait_for(lambda: shell.shown)
        with progress_bar("counting") as inner:
            assert inner is outer
            inner.share(0.5)
            wait_for(lambda: "counting: 50%" in shell.shown[-1][1])
        wait_for(lambda: "explaining: 0 s" in shell.shown[-1][1])
    assert len({display for display, _, _ in shell.shown}) == 1


def test_an_error_ends_the_bar(shell):
    def fail() -> None:
        with progress_bar("counting"), progress_bar("finding"):
            wait_for(lambda: shell.shown)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert shell.shown[-1][1] == ""
    with progress_bar("counting") as bar:  # and the next one is another
        assert bar.state == ("counting", None)


def test_a_display_that_fails_is_nobody_s_error(shell):
    def publish(*_, **__) -> None:
        published.set()
        raise OSError("the socket is closed")

    published, shell.display_pub.publish = threading.Event(), publish
    with progress_bar("counting"):
        assert published.wait(10)


def test_functions_report_to_the_bar_or_to_their_user(shell):
    reported = []

    @with_progress("working", progress="share", report="stage")
    def work(*, progress=None, report=None):
        progress(0.5)
        return progress, report

    share, stage = work()
    assert (share.__name__, stage.__name__) == ("share", "stage")
    assert share.__self__.state == ("working", 0.5)
    shown = len(shell.shown)
    assert work(progress=reported.append) == (reported.append, None)
    assert (reported, len(shell.shown)) == ([0.5], shown)


def slowly(share):
    """Numbers, and how much of them has been read."""
    for number in range(3):
        share and share(number / 3)
        yield number
    yield from ()


def test_a_reader_shows_a_bar_while_it_is_read(shell):
    read = shown_while_read("finding", slowly)
    assert shell.shown == []
    assert next(read) == 0
    wait_for(lambda: "finding: 0%" in (shell.shown or [("", "", False)])[-1][1])
    assert next(read) == 1
    wait_for(lambda: "finding: 33%" in shell.shown[-1][1])
    with progress_bar("counting") as other:  # what happens meanwhile has its own
        assert other.state == ("counting", None)
    assert list(read) == [2]
    assert shell.shown[-1][1] == ""
    abandoned = shown_while_read("finding", slowly)
    next(abandoned)
    abandoned.close()
    wait_for(lambda: shell.shown[-1][1] == "")


@pytest.fixture
def patient(monkeypatch):
    """Have everything that watches progress report something, however quick it is."""
    from bigjoin.local import progress

    class Slow(progress.Meter):
        def advance(self, seeds):
            self.noted = 0.0
            super().advance(seeds)
            time.sleep(0.05)

    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.005)
    for module in ("count_job", "list_job", "group_job"):
        monkeypatch.setattr(f"bigjoin.local.{module}.Meter", Slow)


def test_verbs_under_local(shell, patient, tmp_path):
    with bj.Graph(EDGES) as graph:
        ask = {"strategy": "local"}
        assert graph.count("3-cycle", **ask) == 3
        assert any("counting: " in html and "%" in html for _, html, _ in shell.shown)
        assert graph.write("3-cycle", tmp_path / "out.csv", **ask) == 3
        assert graph.arrow("3-cycle", **ask).read_all().num_rows == 3
        assert {"counting", "finding"} <= shell.stages
        assert graph.arrow("3-cycle", by="a1", **ask).read_all().num_rows == 3
        assert graph.estimate("3-cycle").count == 3
        assert shell.shown[-1][1] == ""


def test_building_says_at_which_stage_it_is(shell, monkeypatch):
    stages = []
    monkeypatch.setattr(notebook.Bar, "stage", lambda self, name: stages.append(name))
    with bj.Graph(EDGES) as graph, graph.undirected() as other:
        assert other.count("triangle", unique=True, strategy="local") == 1
    assert {"looking at the source", "reading edges", "committing"} <= set(stages)


def test_who_gives_a_function_sees_no_bar(shell, patient):
    shares = []
    with bj.Graph(EDGES) as graph:
        shell.shown.clear()
        graph.count("3-cycle", strategy="local", progress=shares.append)
        graph.arrow("3-cycle", strategy="local", progress=shares.append).read_all()
    assert shares
    assert shell.shown == []


IN_A_KERNEL = """
import bigjoin as bj, bigjoin.notebook as notebook
notebook.DELAY_SECONDS, notebook.REDRAW_SECONDS = 0.0, 0.01
graph = bj.Graph([(a, b) for a in range(300) for b in range(300) if a != b and (a * b) % 7 < 3])
print("built")
graph.count("4-clique", strategy="local")
"""


def test_a_bar_in_a_real_kernel(tmp_path):
    sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
    import nbformat
    from nbclient import NotebookClient
    from notebooks import kernel

    messages = []

    class Listening(NotebookClient):
        def process_message(self, message, *others):
            messages.append((message["header"]["msg_type"], message["content"]))
            return super().process_message(message, *others)

    written = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(IN_A_KERNEL)])
    with kernel(tmp_path, {}) as manager:
        Listening(written, km=manager, timeout=120).execute()
    first, *_, last = (output for output in written.cells[0].outputs if output.output_type == "display_data")
    assert first.data == last.data == {"text/html": "", "text/plain": ""}  # what a bar leaves behind
    assert [output.text for output in written.cells[0].outputs if output.output_type == "stream"] == ["built\n"]
    shown = [content["data"]["text/plain"] for kind, content in messages if kind.endswith("display_data")]
    assert any(text.startswith("building an index: ") or text.startswith("reading edges: ") for text in shown)
    assert any(text.startswith("counting: ") for text in shown)
    kinds = [kind for kind, content in messages if kind.endswith("display_data")]
    assert kinds[0] == "display_data"
    assert "update_display_data" in kinds
    result = next(output for output in written.cells[0].outputs if output.output_type == "execute_result")
    assert int(result.data["text/plain"]) > 0
    assert "local" in result.data["text/html"]


@pytest.mark.spark
def test_verbs_with_spark(shell, spark, monkeypatch):
    from bigjoin.local import progress

    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.001)
    with bj.Graph(EDGES, spark=spark) as graph:
        for strategy in ("shared", "partitioned", "balanced"):
            shell.shown.clear()
            for _ in range(2):
                assert graph.count("3-cycle", strategy=strategy) == 3
            assert "counting" in shell.stages
            assert graph.find("3-cycle", strategy=strategy).count() == 3
            assert strategy == "shared" or "finding" in shell.stages
            assert shell.shown[-1][1] == ""
        assert graph.count("3-cycle", by="a1").count() == 3
        assert shell.shown[-1][1] == ""


@pytest.mark.spark
def test_a_watched_count_is_planned_once(shell, spark):
    """The frame of a count is kept, whether anybody watches or not: Spark plans it once."""
    with bj.Graph(EDGES, spark=spark) as graph:
        graph.count("3-cycle", strategy="shared")
        kept = graph._strategies["shared"]._counts._ready
        before = dict(kept)
        graph.count("3-cycle", strategy="shared", progress=lambda _: None)
        assert {key: one[1] for key, one in kept.items()} == {key: one[1] for key, one in before.items()}
        ((_, _, folder),) = before.values()
        assert not folder.exists()


@pytest.mark.spark
def test_shares_of_a_count_come_from_its_tasks(spark, tmp_path):
    graph = bj.Graph(pa.table({"src": list(range(200)) * 50, "dst": [i * 7 % 200 for i in range(10_000)]}), spark=spark)
    shares = []
    with graph:
        for _ in range(2):  # the second time the kept frame is executed
            graph.count("5-path", strategy="shared", progress=shares.append)
    assert all(0 <= share <= 1 for share in shares)
