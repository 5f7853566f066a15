"""Benchmarks: this engine and its peers side by side.

Every contender is a small adapter that runs in a process of its own, so that it can be cut off, and its memory be measured. All
of them get the same file of edges and the same question. Contenders take turns; their counts are compared before a time is
kept; a cold first run is kept apart from the warm ones. What was measured becomes lines of JSON, and tables, plots and
docs/benchmarks.md are made from these lines alone.
"""
