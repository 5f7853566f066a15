"""What is chosen where a user says nothing, and what there is to choose from. Light, so that --help need not wait for Spark."""

from __future__ import annotations

STRATEGIES = ("auto", "shared")

BATCH_SIZE = 1 << 18
"""B': the proposals that one run keeps alive at a step."""
