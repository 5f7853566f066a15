"""The compiled form of a plan: nests of loops, written as one function over arrays and compiled."""
