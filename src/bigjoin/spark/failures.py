"""Turn Spark's errors into a sentence: an error that a task raised, or a process that was lost."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bigjoin import errors
from bigjoin.errors import BigjoinError, LostError, QueryError

_OURS = re.compile(r"^bigjoin\.errors\.(\w+): (.+?)(?=\n\s*\n|\n\t|\n SQLSTATE|\Z)", re.MULTILINE | re.DOTALL)
_WORKER = re.compile(r"Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure")
_SERVER = re.compile(r"RETRIES_EXCEEDED|StatusCode\.UNAVAILABLE|failed to connect to all addresses")

_WORKER_LOST = (
    "a process that ran one of Spark's tasks was killed or has crashed, most likely because it ran out of memory: run fewer "
    "tasks at once (with the master local[1], for example), use a smaller batch size, or give executors more memory "
    "(spark.executor.memoryOverhead)"
)
_JVM_LOST = (
    "Spark's JVM was killed or has crashed, most likely because it ran out of memory: leave it more of the machine's memory, "
    "or let it use less (SPARK_DRIVER_MEMORY, which is 4g unless it is set), and start again"
)
_SERVER_LOST = "the Spark Connect server no longer answers: check its log, start it again, and reconnect"


@contextmanager
def with_plain_errors() -> Iterator[None]:
    """Raise an error from Spark as a BigjoinError, if a task raised one or the cause is known."""
    try:
        yield
    except BigjoinError:
        raise
    except Exception as error:
        if (plain := plain_error(error)) is None:
            raise
        raise plain from error


def plain_error(error: BaseException) -> BigjoinError | None:
    """Return the BigjoinError that an error from Spark stands for: one that a task raised, or a lost process."""
    if isinstance(error, RecursionError):
        return QueryError("this query is nested too deeply: use fewer parentheses, or shorter chains of operators")
    said = str(error)
    if ours := _OURS.findall(said):
        name, message = ours[-1]  # the error raised last is the one for the user
        kind = getattr(errors, name, None)
        return (kind if isinstance(kind, type) and issubclass(kind, BigjoinError) else BigjoinError)(message.strip())
    if _WORKER.search(said):
        return LostError(_WORKER_LOST)
    is_connect = type(error).__module__.startswith(("pyspark.errors.exceptions.connect", "grpc"))
    if is_connect and _SERVER.search(said):
        return LostError(_SERVER_LOST)
    return LostError(_JVM_LOST) if _is_lost_jvm(error) else None


def _is_lost_jvm(error: BaseException | None) -> bool:
    """Tell whether py4j could not reach the JVM, which shows as one of several errors in a chain."""
    if "py4j" not in sys.modules:
        return False
    from py4j.protocol import Py4JNetworkError

    while error is not None:
        if isinstance(error, Py4JNetworkError):
            return True
        if isinstance(error, (ConnectionError, EOFError)) and _passed(error, "py4j"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _passed(error: BaseException, package: str) -> bool:
    """Tell whether an error passed through a package."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").split(".")[0] == package:
            return True
        trace = trace.tb_next
    return False
