"""What is said about an error, and the exit code that goes with it."""

from __future__ import annotations

import os
import re
import sys

from bigjoin.errors import BigjoinError, LostError

USER_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


def message_and_code(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code for an error: bigjoin's own, a Spark task's, the system's, or an unexpected one."""
    if not isinstance(error, BigjoinError):
        if os.environ.get("BIGJOIN_DEBUG"):
            raise error
        if "pyspark" in sys.modules:
            from bigjoin.spark.failures import plain_error

            error = plain_error(error) or error
    if isinstance(error, BigjoinError):
        return str(error), FAILURE if isinstance(error, LostError) else USER_ERROR
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else ""), USER_ERROR
    text = str(error).strip()
    if system := re.search(r"^(?:OSError|PermissionError|FileNotFoundError): (.+)$", text, re.MULTILINE):
        return system[1].strip(), USER_ERROR
    first = (text.splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}\nset BIGJOIN_DEBUG=1 to see where this comes from", FAILURE
