"""A session of its own for each query that runs, so that its jobs, and no others, can be stopped.

On classic Spark such a session is a new one on the same cluster, used by one query after another. Tags would not do, as they do
not reach jobs whose results are Arrow. On Spark Connect it is the user's session, which holds the files and packages that the
user has sent to the server, and the jobs have a tag.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from bigjoin.quota import quota

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_IDLE_SESSIONS = 8
"""Sessions that are kept for the next queries."""

Stoppable: TypeAlias = "tuple[SparkSession, Callable[[], object]]"
"""A session, and what stops the jobs of one query in it."""

_idle: WeakKeyDictionary[SparkSession, list[SparkSession]] = WeakKeyDictionary()
"""For each session of users, those made for its queries that no query uses now."""
_taking = threading.Lock()
_own: ContextVar[tuple[SparkSession, ...]] = ContextVar("own_session", default=())
"""The session that the query of this context runs its jobs in, and the one that it was made from."""


@contextmanager
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Give the session on the same cluster in which this query runs its jobs; they end with the quota of the query."""
    if spark in _own.get():
        yield _own.get()[0]
        return
    with _tagged(spark) if is_connect(spark) else _taken(spark) as (session, stop), quota().stopped_by(stop):
        token = _own.set((session, spark))
        try:
            yield session
        finally:
            _own.reset(token)


def copy_settings(spark: SparkSession, own: SparkSession) -> None:
    """Give a session of our own the settings of the user's; this takes as long as a small query."""
    if spark is not own:
        before, wanted = own.conf.getAll, spark.conf.getAll
        differing = [name for name in before.keys() | wanted.keys() if before.get(name) != wanted.get(name)]
        for name in filter(own.conf.isModifiable, differing):  # others belong to the cluster, and are the same
            if name in wanted:
                own.conf.set(name, wanted[name])
            else:
                own.conf.unset(name)


def is_connect(spark: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return "connect" in type(spark).__module__


@contextmanager
def _tagged(spark: SparkSession) -> Iterator[Stoppable]:
    """Give a session of Spark Connect; the jobs that this thread runs in it have a tag."""
    tag = f"bigjoin-{uuid.uuid4().hex}"
    spark.addTag(tag)
    try:
        yield spark, partial(spark.interruptTag, tag)
    finally:
        spark.removeTag(tag)


@contextmanager
def _taken(spark: SparkSession) -> Iterator[Stoppable]:
    """Give a session that no other query uses, and keep it for the next one, unless its jobs are just being stopped."""
    with _taking:
        idle = _idle.setdefault(spark, [])
        session = idle.pop() if idle else None
    session = session or spark.newSession()
    try:
        yield session, session.interruptAll
    finally:
        with _taking:
            if len(idle) < MAX_IDLE_SESSIONS and not quota().is_used_up:
                idle.append(session)
