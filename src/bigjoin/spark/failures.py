"""What went wrong in Spark, as a sentence: an error that a task raised, or a process that is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JNetworkError

from bigjoin import errors
from bigjoin.errors import BigjoinError, LostError

_OURS = re.compile(r"^bigjoin\.errors\.(\w+): (.+?)(?=\n\s*\n|\n\t|\n SQLSTATE|\Z)", re.MULTILINE | re.DOTALL)
_WORKER = re.compile(r"Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure")
_SERVER = re.compile(r"RETRIES_EXCEEDED|StatusCode\.UNAVAILABLE|failed to connect to all addresses")

_WORKER_LOST = (
    "a process that ran one of Spark's tasks was killed or has crashed, most likely for want of memory: run fewer tasks at "
    "once (the master local[1], for example), take a smaller batch size, or give executors more (spark.executor.memoryOverhead)"
)
_JVM_LOST = (
    "Spark's JVM was killed or has crashed, most likely for want of memory: leave it more of the machine's, or let it take "
    "less (SPARK_DRIVER_MEMORY, which is 4g unless it is set), and start again"
)
_SERVER_LOST = "the Spark Connect server does not answer any more: see what its log says, start it again, and connect anew"


@contextmanager
def told() -> Iterator[None]:
    """Raise what goes wrong in Spark as an error of ours, where it is one or we know what it means."""
    try:
        yield
    except BigjoinError:
        raise
    except Exception as error:
        if (meant := meaning(error)) is None:
            raise
        raise meant from error


def meaning(error: BaseException) -> BigjoinError | None:
    """Return the error of ours that one of Spark's stands for: one that a task raised, or that a process is gone."""
    said = str(error)
    if ours := _OURS.findall(said):
        name, message = ours[-1]  # what was raised last is what was to be told
        kind = getattr(errors, name, None)
        return (kind if isinstance(kind, type) and issubclass(kind, BigjoinError) else BigjoinError)(message.strip())
    if _WORKER.search(said):
        return LostError(_WORKER_LOST)
    if _is_connect(error) and _SERVER.search(said):
        return LostError(_SERVER_LOST)
    return LostError(_JVM_LOST) if _is_lost_jvm(error) else None


def _is_lost_jvm(error: BaseException | None) -> bool:
    """Tell whether py4j could not reach the JVM, which it finds out in several ways, one after another."""
    while error is not None:
        if isinstance(error, Py4JNetworkError):
            return True
        if isinstance(error, (ConnectionError, EOFError)) and _passed(error, "py4j"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _passed(error: BaseException, package: str) -> bool:
    """Tell whether an error came by way of a package."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").split(".")[0] == package:
            return True
        trace = trace.tb_next
    return False


def _is_connect(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark.errors.exceptions.connect", "grpc"))
