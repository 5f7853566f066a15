"""Keys of tasks: Spark itself says where they go."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import functions as F

from bigjoin.spark.task_keys import keys_of

TASKS = np.r_[0:5000, 2**31 - 1]


def test_tasks_have_keys_of_their_own():
    assert len(set(keys_of(TASKS))) == len(TASKS)
    assert len(keys_of(())) == 0


@pytest.mark.spark
def test_spark_hashes_the_key_of_a_task_to_its_number(spark):
    rows = list(zip(TASKS.tolist(), keys_of(TASKS).tolist(), strict=True))
    frame = spark.createDataFrame(rows, "task int, key int")
    assert frame.where(F.hash("key") != F.col("task")).count() == 0


@pytest.mark.spark
@pytest.mark.parametrize("tasks", [1, 2, 7, 300])
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_arrive_in_the_partition_of_their_task(spark, tasks, adaptive):
    numbers = list(range(tasks))
    rows = list(zip(numbers, keys_of(numbers).tolist(), strict=True))
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    arrived = session.createDataFrame(rows, "task int, key int").repartition(tasks, "key")
    assert arrived.where(F.spark_partition_id() != F.col("task")).count() == 0
    assert arrived.count() == tasks
