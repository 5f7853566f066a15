"""Start the JVM of a session in the two cases that PySpark does not handle.

PySpark passes every setting as an argument of the JVM, where other users of the machine can read it, so secret settings are
withheld until the JVM runs. And Hadoop, which Spark asks for the user's name, refuses a user that the system does not know,
as is common in containers, so such a user gets a name before Spark asks.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SECRET_KEY = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Keys whose values are secret: those that Spark redacts by default, and credentials."""


def needs_launch(settings: Mapping[str, str]) -> bool:
    """Tell whether the JVM has to be started here."""
    return "SPARK_REMOTE" not in os.environ and (not _has_name() or any(map(SECRET_KEY.search, settings)))


def launch(settings: Mapping[str, str], home: Path) -> None:
    """Start the JVM, unless it runs already; `home` is the home directory of a user without a name."""
    from pyspark import SparkConf, SparkContext

    public = SparkConf(loadDefaults=False).setAll(
        [(key, value) for key, value in settings.items() if not SECRET_KEY.search(key)]
    )
    if _has_name():
        SparkContext._ensure_initialized(conf=public)
        return
    name = os.environ.setdefault("SPARK_USER", os.environ.get("HADOOP_USER_NAME", f"uid-{os.getuid()}"))
    with submit_options(f"-Duser.name={name} -Duser.home={home}"):  # Java would say "?" for both, and Ivy needs a path
        SparkContext._ensure_initialized(conf=public)
    users = SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation  # type: ignore[union-attr]
    users.setLoginUser(users.createRemoteUser(name))


def redacted(text: str, settings: Mapping[str, str]) -> str:
    """Return a text without the values of secret settings."""
    for key, value in settings.items():
        if SECRET_KEY.search(key) and value:
            text = text.replace(value, "***")
    return text


def _has_name() -> bool:
    try:
        return bool(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return False


@contextmanager
def submit_options(options: str) -> Iterator[None]:
    """Start JVMs with further options."""
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    os.environ["SPARK_SUBMIT_OPTS"] = options if before is None else f"{options} {before}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_SUBMIT_OPTS"]
        else:
            os.environ["SPARK_SUBMIT_OPTS"] = before
