"""Drawn histories of changes, with everything that a watch can do, against brute force."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.drawn_changes import ALIKE, History

FIRST = int(os.environ.get("BIGJOIN_FIRST_HISTORY", "1000"))
HISTORIES = int(os.environ.get("BIGJOIN_HISTORIES", "10000"))
"""Of the slow test: some hundreds take some minutes."""
IN_SPARK = int(os.environ.get("BIGJOIN_HISTORIES_IN_SPARK", "36"))
EVERY_EXECUTION = 10
"""One in so many histories runs along every path of execution."""


def test_histories_are_those_of_the_model(tmp_path):
    for seed in range(8):
        History(seed, tmp_path / str(seed), tmp_path / "bases").play()


def test_every_execution_finds_the_same(tmp_path):
    for seed in range(8, 10):
        History(seed, tmp_path / str(seed), tmp_path / "bases", every_execution=True).play()


@pytest.mark.slow
def test_thousands_of_histories(tmp_path):
    """A failure says the number of its history; `BIGJOIN_FIRST_HISTORY` begins there, or at the first that begins alike."""
    for seed in range(FIRST - FIRST % ALIKE, FIRST + HISTORIES):
        History(seed, tmp_path / "history", tmp_path / "bases", every_execution=seed % EVERY_EXECUTION == 0).play()
        shutil.rmtree(tmp_path / "history")


@pytest.mark.spark
@pytest.mark.slow
def test_histories_in_tasks(spark, tmp_path):
    for seed in range(IN_SPARK):
        strategy = ["shared", "partitioned", "heavy-light", "balanced"][seed % 4]
        History(seed, tmp_path / str(seed), tmp_path / "bases", epochs=2, spark=spark, strategy=strategy).play()


@pytest.mark.spark
@pytest.mark.parametrize("seed", [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(101, 100 + IN_SPARK))])
def test_streams_are_those_of_the_model(seed, spark, tmp_path):
    History(seed, tmp_path / "history", tmp_path / "bases", epochs=3, spark=spark, streams=True).play()
