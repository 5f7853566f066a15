"""Graphs for tests and benchmarks: families that give any chunk of their edges alone, from their parameters and a seed."""

from __future__ import annotations

from bigjoin.generators.family import Family
from bigjoin.generators.pairs import Funnel, Hubs, Uniform
from bigjoin.generators.rmat import Rmat
from bigjoin.generators.theory import Theory

__all__ = ["Family", "Funnel", "Hubs", "Rmat", "Theory", "Uniform"]
