"""What is chosen where a user says nothing, and what there is to choose from. Light, so that --help need not wait for Spark."""

from __future__ import annotations

STRATEGIES = ("auto", "shared", "partitioned")

BATCH_SIZE = 1 << 18
"""B': the proposals that a run on batches keeps alive at a step, and the matches that a task holds at once."""

PART_SIZE = 1 << 21
"""Rows that a task of a build holds at once, about: its memory follows this, whatever the size of the graph."""
