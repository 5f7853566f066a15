"""An S3 server on loopback: MinIO, with credentials and data of its own."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Any

from tests.store.server import Server
from tests.store.tools import fetched, free_ports, tools

MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
"""What `go install` builds where no MinIO is installed. It takes minutes, once."""
BUCKET = "bigjoin"
REGION = "us-east-1"


def program() -> Path:
    """Return MinIO's program."""
    installed = shutil.which("minio")
    return Path(installed) if installed else fetched("minio", "go", "install", MODULE, GOBIN=str(tools()))


class Minio(Server):
    """An S3 server with one bucket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.access_key, self.secret_key = secrets.token_hex(8), secrets.token_hex(20)
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.url = f"s3://{BUCKET}"
        self._program = program()
        (folder / "data" / BUCKET).mkdir(parents=True)  # which is how MinIO stores a bucket

    @property
    def storage_options(self) -> dict[str, Any]:
        """What fsspec needs to be told where nothing else tells it."""
        client = {"endpoint_url": self.endpoint, "region_name": REGION}
        return {"key": self.access_key, "secret": self.secret_key, "client_kwargs": client}

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables, which every client of S3 reads."""
        keys = {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}
        return {**keys, "AWS_ENDPOINT_URL_S3": self.endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}

    @property
    def hadoop_settings(self) -> dict[str, str]:
        """The same as settings of a Spark session."""
        settings = {
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "endpoint": self.endpoint,
            "endpoint.region": REGION,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    def start(self) -> None:
        self._run(
            *(str(self._program), "server", "--quiet", "--address", f"127.0.0.1:{self.port}", str(self.folder / "data")),
            MINIO_ROOT_USER=self.access_key,
            MINIO_ROOT_PASSWORD=self.secret_key,
            MINIO_BROWSER="off",
            MINIO_UPDATE="off",  # it would ask its maker
            MINIO_CONFIG_ENV_FILE="",
            HOME=str(self.folder),
        )
        self._wait_for(f"{self.endpoint}/minio/health/ready")
