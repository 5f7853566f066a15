"""HDFS on loopback: a NameNode and a DataNode, from Hadoop's jar for tests and the jars that come with PySpark."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyspark

from tests.store.server import Server
from tests.store.tools import MissingToolError, fetched, free_ports

JARS = Path(pyspark.__file__).parent / "jars"
HEAP = "-Xmx256m"
NODE = "org.apache.hadoop.hdfs.server"


def jar() -> Path:
    """Return the jar of Hadoop's servers, in the version of Spark's client."""
    if (version := next((file.stem.rpartition("-")[2] for file in JARS.glob("hadoop-client-api-*.jar")), None)) is None:
        raise MissingToolError("this PySpark has no jars of Hadoop")
    artifact = f"org.apache.hadoop:hadoop-client-minicluster:{version}"
    options = [f"-Dartifact={artifact}", "-Dtransitive=false", "-DoutputDirectory=."]
    return fetched(f"hadoop-client-minicluster-{version}.jar", "mvn", "-q", "-B", "dependency:copy", *options)


class Hdfs(Server):
    """HDFS with one replica of each block."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port, self._web, *data = free_ports(5)
        self.url = f"hdfs://127.0.0.1:{self.port}"
        home = Path(os.environ["JAVA_HOME"]) / "bin" if "JAVA_HOME" in os.environ else None
        if (java := shutil.which("java", path=home and str(home))) is None:
            raise MissingToolError("Java is not installed")
        self._java = [java, HEAP, "-cp", f"{folder}:{jar()}:{JARS}/*"]
        _write_settings(folder / "core-site.xml", {"fs.defaultFS": self.url})
        _write_settings(
            folder / "hdfs-site.xml",
            {
                "dfs.namenode.name.dir": f"file://{folder}/name",
                "dfs.namenode.http-address": f"127.0.0.1:{self._web}",
                "dfs.datanode.data.dir": f"file://{folder}/data",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.datanode.address": f"127.0.0.1:{data[0]}",
                "dfs.datanode.http.address": f"127.0.0.1:{data[1]}",
                "dfs.datanode.ipc.address": f"127.0.0.1:{data[2]}",
                "dfs.replication": "1",
                "dfs.permissions.enabled": "false",
                "dfs.namenode.safemode.extension": "0",
            },
        )

    def start(self) -> None:
        if not (self.folder / "name").exists():
            self._run(*self._java, f"{NODE}.namenode.NameNode", "-format", "-nonInteractive")
            self.processes.pop().wait()
        self._run(*self._java, f"{NODE}.namenode.NameNode")
        self._run(*self._java, f"{NODE}.datanode.DataNode")
        page = f"http://127.0.0.1:{self._web}/jmx?qry=Hadoop:service=NameNode,name="
        self._wait_for(f"{page}FSNamesystemState", b'"NumLiveDataNodes" : 1')
        self._wait_for(f"{page}NameNodeInfo", b'"Safemode" : ""')  # until then, nothing can be written


def _write_settings(file: Path, settings: dict[str, str]) -> None:
    found = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    file.write_text(f"<configuration>{found}</configuration>")
