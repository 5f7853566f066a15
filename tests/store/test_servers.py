"""The servers of these tests work as the real ones do: what a store promises, and that machines share nothing else."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest

from tests.store.machines import ROOT

pytestmark = pytest.mark.store
RIVALS = 8


def tells_of_another(error):
    """Tell whether an error means that a name is taken. From servers other than Amazon's, s3fs does not say FileExistsError."""
    said = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
    return isinstance(error, FileExistsError) or said == "PreconditionFailed"


def winners(attempt):
    """Have rivals try something at once, and return those that nothing told of another one."""

    def wins(rival):
        try:
            attempt(rival)
        except OSError as error:
            if tells_of_another(error):
                return False
            raise
        return True

    with ThreadPoolExecutor(RIVALS) as threads:
        return [rival for rival, won in enumerate(threads.map(wins, range(RIVALS))) if won]


def test_s3_keeps_objects_through_a_crash(s3):
    store = fsspec.filesystem("s3", **s3.storage_options, skip_instance_cache=True, use_listings_cache=False)
    root = f"{s3.url}/crash"
    content = os.urandom(1 << 20)
    store.pipe_file(f"{root}/a", content)
    store.copy(f"{root}/a", f"{root}/folder/b")
    s3.kill()
    s3.start()
    assert store.cat_file(f"{root}/folder/b") == content
    assert store.cat_file(f"{root}/a", start=5, end=9) == content[5:9]
    assert store.cat_ranges([f"{root}/a"] * 2, [0, 1 << 19], [3, (1 << 19) + 3]) == [
        content[:3],
        content[1 << 19 : (1 << 19) + 3],
    ]
    assert store.find(root) == [f"{root}/a".removeprefix("s3://"), f"{root}/folder/b".removeprefix("s3://")]


def test_s3_has_one_winner(s3):
    store = fsspec.filesystem("s3", **s3.storage_options)
    path = f"{s3.url}/one-winner"
    won = winners(lambda rival: store.pipe_file(path, b"%d" % rival, mode="create"))
    assert len(won) == 1
    assert store.cat_file(path) == b"%d" % won[0]


def test_s3_wants_the_right_credentials(s3):
    store = fsspec.filesystem("s3", **{**s3.storage_options, "secret": "guessed"})
    with pytest.raises(PermissionError):
        store.pipe_file(f"{s3.url}/forbidden", b"")


def test_hdfs_keeps_files_through_a_crash(hdfs):
    store = fsspec.filesystem("hdfs", host="127.0.0.1", port=hdfs.port)
    content = os.urandom(1 << 20)
    store.pipe_file("/crash/a", content)
    hdfs.kill()
    hdfs.start()
    store = fsspec.filesystem("hdfs", host="127.0.0.1", port=hdfs.port, skip_instance_cache=True)
    assert store.cat_file("/crash/a", start=5, end=9) == content[5:9]
    assert [Path(name).name for name in store.find("/crash")] == ["a"]


def test_hdfs_has_one_winner(hdfs):
    store = fsspec.filesystem("hdfs", host="127.0.0.1", port=hdfs.port)
    for rival in range(RIVALS):
        store.pipe_file(f"/drafts/{rival}", b"%d" % rival)
    won = winners(lambda rival: store.mv(f"/drafts/{rival}", "/one-winner"))
    assert len(won) == 1
    assert store.cat_file("/one-winner") == b"%d" % won[0]


WHO_SEES_WHAT = """
import json, os, sys, time
from pathlib import Path
import pyarrow as pa
from pyspark.sql import functions as F
import bigjoin as bj

def machine():
    return os.readlink("/proc/self/ns/mnt").strip("mnt:[]")

def looked(tables):
    for _ in tables:
        Path("/tmp", f"seen-{machine()}").touch()
        time.sleep(3)  # the other machine's task writes meanwhile
        try:
            Path(checkout, "written").touch()
            writes = True
        except OSError:
            writes = False
        seen = {"seen": [path.name for path in Path("/tmp").glob("seen-*")], "writes": writes, "knows": sorted(os.environ)}
        yield pa.table({"machine": [machine()], "told": [json.dumps({**seen, "reads": bj.__version__})]}).to_batches()[0]

checkout = sys.argv[1]
Path("/tmp", f"seen-{machine()}").touch()
try:
    spark = bj.session()
    told = spark.range(2, numPartitions=2).mapInArrow(looked, "machine string, told string").collect()
    mine = [path.name for path in Path("/tmp").glob("seen-*")]
    shuffled = spark.range(1000, numPartitions=4).groupBy((F.col("id") % 7).alias("rest")).count().count()
finally:
    Path("/tmp", f"seen-{machine()}").unlink()
told = {row.machine: json.loads(row.told) for row in told}
print(json.dumps({"driver": machine(), "mine": mine, "shuffled": shuffled, "told": told}))
"""


def test_machines_share_no_folder(cluster):
    said = json.loads(cluster.run(WHO_SEES_WHAT, str(ROOT)))
    assert len(said["told"]) == 2
    assert said["shuffled"] == 7
    assert said["driver"] not in said["told"]
    assert said["mine"] == [f"seen-{said['driver']}"]
    for machine, told in said["told"].items():
        assert told["seen"] == [f"seen-{machine}"]
        assert told["reads"]
        assert not told["writes"]
        assert "BIGJOIN_CACHE" not in told["knows"]
        assert "AWS_ACCESS_KEY_ID" not in told["knows"]
    assert not (ROOT / "written").exists()


STORED_BY_TASKS = """
import sys
import fsspec
import pyarrow as pa
import bigjoin as bj

def stored(tables):
    for table in tables:
        for number in table["id"].to_pylist():
            with fsspec.open(f"{folder}/{number}", "w") as out:
                out.write(str(number))
        yield table

folder = sys.argv[1]
bj.session().range(4, numPartitions=2).mapInArrow(stored, "id long").collect()
"""


def test_machines_share_a_store(cluster, s3):
    folder = f"{s3.url}/machines"
    cluster.run(STORED_BY_TASKS, folder, variables=s3.environment)
    store = fsspec.filesystem("s3", **s3.storage_options, use_listings_cache=False)
    assert {path.rpartition("/")[2]: store.cat_file(path) for path in store.find(folder)} == {
        str(n): b"%d" % n for n in range(4)
    }
