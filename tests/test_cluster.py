"""Settings of a session, and a cluster on this machine whose clients have to know a secret."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bigjoin.cli.options import Options, _settings
from bigjoin.spark.jvm import SECRET_KEY, redacted
from tests.test_cli import BIGJOIN, refused, run

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from cluster import Cluster

COMMANDS = [
    ["count", "triangle", "edges.txt"],
    ["find", "triangle", "edges.txt"],
    ["explain", "triangle", "edges.txt"],
    ["index", "edges.txt", "new"],
    ["watch", "triangle", "new", "--updates", "."],
    ["generate", "uniform", "new", "--vertices", "5", "--edges", "5"],
    ["demo"],
    ["bench"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_that_may_start_a_session_takes_settings(tmp_path, command):
    (tmp_path / "edges.txt").write_text("1 2\n")
    for setting, told in (("spark.executor.memory", "'spark.executor.memory'"), ("=hidden", "'='"), ("  =hidden", "'='")):
        done = run(*command, "--conf", "spark.a=b", "--conf", setting, cwd=tmp_path, JAVA_HOME="/nowhere")
        assert refused(done, f"{told} is not a setting: write KEY=VALUE")
        assert "hidden" not in done.stderr


def test_a_setting_may_be_in_a_file(tmp_path):
    (tmp_path / "secret").write_text("hidden\n")
    given = ("spark.a=b=c", "spark.b=", f"spark.c=@{tmp_path / 'secret'}", "spark.a=last")
    assert _settings(None, None, given) == {"spark.a": "last", "spark.b": "", "spark.c": "hidden"}
    assert Options().conf == {}
    done = run("demo", "--conf", f"spark.a=@{tmp_path}/nowhere", JAVA_HOME="/nowhere")
    assert refused(done, f"spark.a: cannot read {tmp_path}/nowhere: No such file or directory")


@pytest.mark.parametrize("said", ["spark.a=b", "[1]", "1"])
def test_settings_of_the_environment_are_an_object(tmp_path, said):
    (tmp_path / "edges.txt").write_text("1 2\n")
    done = run("count", "triangle", "edges.txt", cwd=tmp_path, BIGJOIN_CONF=said)
    assert refused(done, "BIGJOIN_CONF is not a JSON object of settings")


def test_secrets_are_known_by_their_keys():
    keys = [
        "spark.authenticate.secret",
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.s3a.access.key",
        "spark.x.accessKey",
        "a.TOKEN",
    ]
    assert all(map(SECRET_KEY.search, keys))
    assert not any(map(SECRET_KEY.search, ["spark.authenticate", "spark.executor.memory", "spark.master"]))
    told = redacted("no such b5d: c7e, b5d", {"spark.authenticate.secret": "b5d", "spark.app.name": "c7e", "a.token": ""})
    assert told == "no such ***: c7e, ***"


def arguments():
    """Return the arguments of every process, which any user of the machine can read."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            yield file.read_bytes()


SETTINGS = """
import os
from bigjoin.spark.session import get_session
from tests.test_cluster import arguments
secret = os.environ["HIDDEN"]
spark = get_session("local[1]", {"spark.my.secret": secret, "spark.sql.shuffle.partitions": "7", "spark.app.name": "mine"})
assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
assert spark.conf.get("spark.app.name") == "mine"
assert spark.conf.get("spark.ui.port") == "7"
assert spark.conf.get("spark.my.secret") == secret
seen = list(arguments())
assert any(b"spark.app.name=mine" in line for line in seen)
assert not any(secret.encode() in line for line in seen)
assert get_session() is spark
assert get_session(conf={"spark.sql.shuffle.partitions": "3"}).conf.get("spark.sql.shuffle.partitions") == "3"
print("as set")
"""


@pytest.mark.slow
@pytest.mark.spark
def test_settings_reach_the_session_and_secrets_no_arguments():
    done = subprocess.run(
        [sys.executable, "-c", SETTINGS],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "HIDDEN": "b5d0c7e1", "BIGJOIN_CONF": '{"spark.app.name": "theirs", "spark.ui.port": 7}'},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout == "as set\n", done.stderr[-3000:]


def listening(processes):
    """Return the addresses, in hexadecimal, that some processes listen at."""
    sockets = set()
    for process in processes:
        for handle in Path(f"/proc/{process.pid}/fd").iterdir():
            if inode := re.fullmatch(r"socket:\[(\d+)\]", str(handle.readlink())):
                sockets.add(inode[1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].rpartition(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.slow
@pytest.mark.spark
def test_a_cluster_is_for_those_who_know_its_secret(tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n3 1\n3 4\n")
    with Cluster(workers=1) as cluster:
        secret = cluster.conf["spark.authenticate.secret"]
        assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((cluster.folder / "secret").stat().st_mode) == 0o600
        assert listening(cluster.processes) <= LOOPBACK
        assert "REST server" not in "".join(log.read_text() for log in cluster.folder.glob("*.log"))

        command = [str(BIGJOIN), "count", "3-cycle", "edges.txt", "--quiet", "--strategy", "shared"]
        client = subprocess.Popen(
            [*command, *cluster.options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        seen = set()
        while client.poll() is None:
            seen.update(arguments())
            time.sleep(0.05)
        assert (client.returncode, *client.communicate()) == (0, "3\n", "")
        assert any(b"CoarseGrainedExecutorBackend" in line for line in seen)
        assert not any(secret.encode() in line for line in seen)

        wrong = ["--master", cluster.master, "--conf", "spark.authenticate=true", "--conf", "spark.authenticate.secret=guessed"]
        for options in (wrong, wrong[:2]):
            done = run(*command[1:], *options, cwd=tmp_path)
            assert refused(
                done, f"Spark did not start with master {cluster.master}: it is running, but does not accept this client"
            )
            assert "guessed" not in done.stderr
            assert "Traceback" not in done.stderr
    assert not cluster.folder.exists()
    assert not any(Path(f"/proc/{process.pid}").exists() for process in cluster.processes)
    assert os.environ.get("_SPARK_AUTH_SECRET") is None
