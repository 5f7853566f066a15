"""The skew study: what each worker receives and holds, strategy by strategy, on inputs made to be lopsided and on real graphs.

All contenders are our own, so they share a session and an index, and what counts are loads rather than times. Results are
the same lines of JSON as those of other suites, and docs/skew.md is made of them alone.
"""
