"""Fixtures: one Spark session for all tests, started by the first that asks; published data where it is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"

# Warnings of PySpark about its own future are not about this code.
os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")


# Spark's workers import the benchmarks too.
BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (BENCHMARKS, os.environ.get("PYTHONPATH"))))


def pytest_make_parametrize_id(val):
    """Name tests alike in every process: compressed bytes, for one, hold the time."""
    return "bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def spark():
    from bigjoin.spark.session import get_session

    session = get_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Tests keep their indices to themselves."""
    monkeypatch.setenv("BIGJOIN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def bits_everywhere(monkeypatch):
    """Small graphs have short lists: in this process, sets are bits wherever they can be."""
    monkeypatch.setattr("bigjoin.compiled.stages.has_dense_lists", lambda *_: True)


@pytest.fixture
def loops_as_python(monkeypatch):
    """Generated functions need not be compiled; the kernels that they call are."""
    from tests.executions import interpreted

    monkeypatch.setattr("bigjoin.compiled.loops.load", interpreted)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the published graphs are not beside this checkout (../shared/data)")
    return SHARED


@pytest.fixture(scope="session")
def truth(shared_data) -> dict:
    return json.loads((shared_data / "truth.json").read_text())
