"""The packages of Delta and Iceberg for each Spark, and the settings of a session that has them."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

PACKAGES = {
    "4.0": {
        "delta": "io.delta:delta-spark_4.0_2.13:4.4.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    },
    "4.1": {
        "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    "4.2": {"delta": "io.delta:delta-spark_4.2_2.13:4.4.0"},
    "4.3": {},
}
"""By the version of Spark."""
DERBY = "jdbc:derby:memory:{};create=true"
"""A database in the memory of the JVM: Derby is part of Spark."""


def of_installed_spark() -> str:
    """Return the version of Spark, such as 4.1."""
    return ".".join(pyspark.__version__.split(".")[:2])


def settings(home: Path) -> dict[str, str]:
    """Return the settings of a session with all kinds of tables, which lie in a folder."""
    packages = PACKAGES[of_installed_spark()]
    found = {
        "spark.jars.ivy": str(Path(sys.prefix) / "ivy"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": DERBY.format("metastore"),
        "spark.sql.catalog.shop": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.shop.url": DERBY.format("shop"),
        "spark.sql.catalog.shop.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }
    if packages:
        found["spark.jars.packages"] = ",".join(packages.values())
    extensions = []
    if "delta" in packages:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        found["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if "iceberg" in packages:
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        found |= {
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(home / "iceberg"),
        }
    return found | ({"spark.sql.extensions": ",".join(extensions)} if extensions else {})
