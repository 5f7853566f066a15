"""What the paper measured (Ammar, McSherry, Salihoglu, Joglekar: VLDB 2018), to stand beside our figures.

Its graphs are LiveJournal (LJ, 68.9 M edges) and Twitter (TW, 1.5 B), its machines have 16 to 64
cores: ratios compare, seconds do not.
"""

from __future__ import annotations

EMPTY_HEADED = (
    ("triangle", "LJ", 1.2, 150.3, 6.5, 1.9),
    ("diamond", "LJ", 31.7, 150.3, 712.3, 1.9),
    ("triangle", "TW", 213.8, 4155.0, 588.0, 34.4),
)
"""Query, graph, EmptyHeaded's run and index time, BiGJoinT's run and index time: one machine, up to 64 cores."""

ARABESQUE = (
    ("triangle", 69.0, 1.46e9, 3.4, 38e6),
    ("4-clique", 273.7, 18.7e9, 21.8, 350e6),
)
"""Query on LJ, Arabesque's seconds and intermediate prefixes, BiGJoinT's: 8 machines with 16 cores."""

SEED = (
    ("4-clique", 60.0, 54.0, 43.4, 13.3),
    ("house", 1013.0, 370.0, 294.3, 74.1),
    ("5-clique", 1206.0, 2861.1, 2153.2, 315.7),
)
"""Query on LJ, seconds of SEED+O, BiGJoinT, with symmetry broken, and with triangles indexed too: 10 machines with 16 cores."""

COST = {"BiGJoinT": 2, "Delta-BiGJoinT": 4}
"""Cores that it takes to outperform one thread, triangles of TW."""

COMMON_CRAWL = (
    ("4-clique", 226.378, 46_517_875.0),
    ("diamond", 276.587, 26_681_430.0),
)
"""Query on Common Crawl (CC, 64 B edges), seconds of a batch of edges, changed matches a second: 16 machines, 224 workers."""

CAPACITY = {
    "speed": "CC and parts of it, 14 to 224 workers: about 1 M updates and 10 to 100 M changed triangles a second",
    "index": "falls about linearly with the machines; twice the graph on twice the machines: 8 B tuples each",
    "memory": "falls with the machines; the peak is that of building the index",
    "balance": "the largest index is about the total divided by the machines",
}
"""What figure 5 shows, in words: its numbers are only drawn."""

BATCH_SIZE = "UK, triangle, 16 workers: faster up to B' = 10 K, then level; up to 100 K memory stays near the index, 25.1 GB"
"""What figure 6 shows, in words."""
