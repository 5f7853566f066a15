"""The JVM of a session, started where PySpark's own way of starting it will not do.

PySpark starts the JVM with every setting as an argument, where other users of the machine can read it; so settings that are
secrets are left for later, when the two talk to each other. And Hadoop, which Spark asks who the user is, refuses a user
whom the system does not know, which is ordinary in containers; so there the user is given a name before Spark asks.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SECRET_KEY = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Keys whose values are nobody else's business: what Spark redacts by default, and credentials."""


def needs_launch(settings: Mapping[str, str]) -> bool:
    """Tell whether the JVM has to be started here."""
    return "SPARK_REMOTE" not in os.environ and (not _has_name() or any(map(SECRET_KEY.search, settings)))


def launch(settings: Mapping[str, str], home: Path) -> None:
    """Start the JVM, unless there is one; its user's folder is `home`, if that user has no name."""
    from pyspark import SparkConf, SparkContext

    told = SparkConf(loadDefaults=False).setAll([(key, value) for key, value in settings.items() if not SECRET_KEY.search(key)])
    if _has_name():
        SparkContext._ensure_initialized(conf=told)
        return
    name = os.environ.setdefault("SPARK_USER", os.environ.get("HADOOP_USER_NAME", f"uid-{os.getuid()}"))
    with _submit_options(f"-Duser.name={name} -Duser.home={home}"):  # both are ? otherwise, and Ivy wants a path
        SparkContext._ensure_initialized(conf=told)
    users = SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation  # type: ignore[union-attr]
    users.setLoginUser(users.createRemoteUser(name))


def redacted(text: str, settings: Mapping[str, str]) -> str:
    """Return a text without the values of settings that are secrets."""
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
def _submit_options(options: str) -> Iterator[None]:
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    os.environ["SPARK_SUBMIT_OPTS"] = options if before is None else f"{options} {before}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_SUBMIT_OPTS"]
        else:
            os.environ["SPARK_SUBMIT_OPTS"] = before
