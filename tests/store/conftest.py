"""Fixtures: real stores, and a cluster whose machines share nothing else. Each starts when a test first asks for it.

They need programs that are not Python packages, so these tests only run when they are asked for: `make test-store`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from private_folders import refusal

from tests.store.hdfs import Hdfs
from tests.store.machines import Machines
from tests.store.minio import Minio
from tests.store.tools import MissingToolError

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config, items):
    """Leave these tests out unless the options name their mark or their folder."""
    if "store" in config.option.markexpr or any(
        Path(argument.split("::")[0]).resolve().is_relative_to(HERE) for argument in config.args
    ):
        return
    left_out = [item for item in items if item.path.is_relative_to(HERE)]
    items[:] = [item for item in items if not item.path.is_relative_to(HERE)]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """An S3 server with a bucket: `url`, `storage_options`, `environment`, `hadoop_settings`; `kill()`, `start()`."""
    pytest.importorskip("s3fs")
    yield from started(Minio, tmp_path_factory.mktemp("s3"))


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """HDFS: `url`; `kill()`, `start()`."""
    pytest.importorskip("hdfs_native")
    yield from started(Hdfs, tmp_path_factory.mktemp("hdfs"))


@pytest.fixture(scope="session")
def cluster():
    """Two workers that share no folder: `cluster.run(program, variables=s3.environment)`, `cluster.environment(...)`."""
    if reason := refusal():
        pytest.skip(f"workers cannot have private folders: {reason}")
    with Machines() as machines:
        yield machines


def started(server, folder):
    try:
        made = server(folder)
    except MissingToolError as error:
        pytest.skip(str(error))
    with made:
        yield made
