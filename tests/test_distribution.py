"""The wheel and the sdist, as strangers get them: their contents, and what they do in an environment that has nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path, PurePosixPath

import pytest

import bigjoin

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
VERSION = bigjoin.__version__
BUNDLED_TRIANGLES = 1_624_481
"""The published number of undirected triangles of soc-Epinions1."""

IMPORT_EVERYTHING = """
import pkgutil
from importlib import import_module
import bigjoin, pyspark_bigjoin
modules = [found.name for found in pkgutil.walk_packages(bigjoin.__path__, "bigjoin.")]
for name in modules:
    if not name.endswith("__main__"):
        import_module(name)
assert all(getattr(bigjoin, name) is not None for name in bigjoin.__all__)
print(bigjoin.__version__, len(modules) > 100, bigjoin.__file__)
"""

COUNT_IN_PYTHON = """
import sys
import bigjoin as bj
graph = bj.Graph(sys.argv[1], directed=False)
counted = graph.count("triangle", unique=True)
print(int(counted), counted.strategy, sorted(graph.find("2-cycle", limit=1).columns))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Return a folder with the wheel and the sdist: BIGJOIN_DIST, or one in which they are built now."""
    if (folder := os.environ.get("BIGJOIN_DIST")) is not None:
        return ROOT / folder
    made = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", made, ROOT, cwd=ROOT)
    return made


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    return built / f"bigjoin-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def sdist(built) -> Path:
    return built / f"bigjoin-{VERSION}.tar.gz"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Return the programs of a new environment with the wheel and what it asks for, in the newest versions that it allows."""
    return new_environment(tmp_path_factory.mktemp("wheel"), wheel)


def new_environment(folder: Path, package: Path) -> Path:
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "pip", "install", "--quiet", package, cwd=folder)
    return folder / "bin"


def run(*command, cwd) -> str:
    """Run a program without anything of this checkout at hand, and return what it prints."""
    mine = ("PYTHONPATH", "BIGJOIN_CACHE", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in mine}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def in_package(names) -> set[str]:
    """Return those names that are files of the two packages, as they are called below src/."""
    return {name for name in names if PurePosixPath(name).parts[0] in ("bigjoin", "pyspark_bigjoin")}


def tracked() -> set[str]:
    """Return the files of the library, as they are called below src/."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name.removeprefix("src/") for name in listed if (ROOT / name).exists()}


def test_the_wheel_holds_the_library_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    about = f"bigjoin-{VERSION}.dist-info"
    assert in_package(names) == tracked()
    assert {"bigjoin/py.typed", "bigjoin/data/soc-Epinions1.txt.gz"} <= names
    assert {name.split("/", 1)[1] for name in names - in_package(names)} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "licenses/NOTICE",
    }
    assert all(name.startswith(about) for name in names - in_package(names))


def test_the_sdist_holds_what_the_wheel_is_built_from(sdist):
    with tarfile.open(sdist) as content:
        names = {member.name.split("/", 1)[1] for member in content.getmembers() if member.isfile()}
    inside = {name.removeprefix("src/") for name in names if name.startswith("src/")}
    assert inside == tracked()
    beside = {"pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE", "PKG-INFO", ".gitignore"}
    assert {name for name in names if not name.startswith("src/")} == beside


def test_the_metadata_says_what_an_index_of_packages_shows(wheel):
    from packaging.metadata import Metadata

    with zipfile.ZipFile(wheel) as content:
        raw = content.read(f"bigjoin-{VERSION}.dist-info/METADATA")
    said = Metadata.from_email(raw, validate=True)
    assert (said.name, str(said.version), said.license_expression) == ("bigjoin", VERSION, "Apache-2.0")
    assert said.license_files == ["LICENSE", "NOTICE"]
    assert message_from_bytes(raw)["Description-Content-Type"] == "text/markdown"
    assert said.description.strip() == (ROOT / "README.md").read_text().strip()
    needed = {requirement.name for requirement in said.requires_dist if requirement.marker is None}
    assert {"pyspark", "numba", "numpy", "pyarrow"} <= needed
    assert not needed & {"pytest", "mypy", "ruff", "duckdb", "mkdocs-material", "playwright"}


def test_a_wheel_from_the_sdist_is_the_same_wheel(wheel, sdist, tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, sdist, cwd=tmp_path)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(tmp_path / wheel.name) as other:
        assert one.read(f"bigjoin-{VERSION}.dist-info/RECORD") == other.read(f"bigjoin-{VERSION}.dist-info/RECORD")


def test_nothing_is_missing_from_a_new_environment(installed, tmp_path):
    run(installed / "pip", "check", cwd=tmp_path)
    version, whole, place = run(installed / "python", "-P", "-c", IMPORT_EVERYTHING, cwd=tmp_path).split()
    assert (version, whole) == (VERSION, "True")
    assert Path(place).is_relative_to(installed.parent)


@pytest.mark.spark
def test_a_new_environment_counts(installed, tmp_path):
    assert run(installed / "bigjoin", "--version", cwd=tmp_path) == f"bigjoin, version {VERSION}\n"
    counted_triangles(installed, tmp_path)
    shown = run(installed / "bigjoin", "demo", "--quiet", cwd=tmp_path)
    assert f"{BUNDLED_TRIANGLES:,}" in shown
    assert "differs" not in shown


def test_an_environment_from_the_sdist_counts(sdist, tmp_path):
    programs = new_environment(tmp_path / "environment", sdist)
    assert counted_triangles(programs, tmp_path)


def counted_triangles(programs: Path, folder: Path) -> bool:
    """Count the triangles of the bundled graph on the command line and in Python, without Spark and with it."""
    graph = next(programs.parent.glob("lib/python*/site-packages/bigjoin/data/soc-Epinions1.txt.gz"))
    flags = ("--undirected", "--unique", "--quiet")
    count = (programs / "bigjoin", "count", "triangle", graph, *flags)
    assert run(*count, "--strategy", "local", cwd=folder) == f"{BUNDLED_TRIANGLES}\n"
    assert run(*count, "--strategy", "shared", cwd=folder) == f"{BUNDLED_TRIANGLES}\n"
    said = run(programs / "python", "-P", "-c", COUNT_IN_PYTHON, graph, cwd=folder)
    assert said == f"{BUNDLED_TRIANGLES} shared ['a1', 'a2']\n"
    return True
