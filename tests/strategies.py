"""The strategies, for tests in Spark, where all but two of them are slow; cases run them all without Spark."""

import pytest

IN_ROUNDS = ("partitioned", *(pytest.param(name, marks=pytest.mark.slow) for name in ("heavy-light", "balanced")))
STRATEGIES = ("shared", *IN_ROUNDS)
