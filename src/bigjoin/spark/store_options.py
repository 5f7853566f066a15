"""What fsspec needs to open a store, taken from the Hadoop configuration of a session.

Spark's own sources open S3 with it, so whoever has told Spark need not tell bigjoin. Other stores are opened by what fsspec
finds in the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bigjoin.errors import SourceError, warn_of_reading
from bigjoin.index.manifest_file import is_index
from bigjoin.paths import is_remote
from bigjoin.spark.session import active_session
from bigjoin.storage import Place, place_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.hadoop.fs.s3a."


def place_with_options(
    given: str | Place, options: Mapping[str, Any] | None = None, spark: SparkSession | None = None
) -> Place:
    """Return the place that a path or URL names, opened as the caller says or, without that, as Spark opens S3."""
    if options is None and isinstance(given, str) and given.startswith(("s3://", "s3a://")):
        session = spark if spark is not None and not callable(spark) else active_session()
        options = None if session is None else _s3_options(session)
    if options and not is_remote(str(given)):
        options = None  # a path of this machine needs none
    return place_of(given, options)


def index_at(source: object, options: Mapping[str, Any] | None = None, spark: SparkSession | None = None) -> Place | None:
    """Return the place of an index that a source names, if it names one; what cannot be opened here is for Spark to read."""
    if isinstance(source, str) and is_remote(source):
        if source.startswith(("http:", "https:", "ftp:")):
            return None
        try:
            place = place_with_options(source, options, spark)
            return place if is_index(place) else None
        except SourceError as error:
            if options is not None:
                raise
            warn_of_reading(f"{error}; so it is left to Spark, as if it were no index")
            return None
    if isinstance(source, str | Path):
        return Path(source) if is_index(Path(source)) else None
    if hasattr(source, "storage_options"):  # a UPath
        return cast("Place", source) if is_index(cast("Place", source)) else None
    return None


def _s3_options(spark: SparkSession) -> Mapping[str, Any]:
    """Return the options of s3fs that say what the Hadoop configuration of a session says of S3."""

    def said(name: str) -> str | None:
        return spark.conf.get(_PREFIX + name, None)

    options: dict[str, object] = {}
    for name, option in (("access.key", "key"), ("secret.key", "secret"), ("session.token", "token")):
        if value := said(name):
            options[option] = value
    if endpoint := said("endpoint"):
        secure = said("connection.ssl.enabled") != "false"
        options["endpoint_url"] = endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"
    if region := said("endpoint.region"):
        options["client_kwargs"] = {"region_name": region}
    if said("path.style.access") == "true":
        options["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    return options
