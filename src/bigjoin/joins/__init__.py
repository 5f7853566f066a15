"""The algorithm, without Spark: a plan bound to an index, one Extend step, and the order in which steps run."""
