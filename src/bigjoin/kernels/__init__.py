"""The compiled loops, and the only place that imports numba. Kernels know arrays: no relations, no attributes, no plans.

Three arrays recur. A *list* is a stretch of `values` (sorted codes), by its node: values[offsets[node]:offsets[node + 1]]. A
*window* (lower, upper) bounds the codes of a list that count, prefix by prefix; an empty array means no bound. *Candidates* are
one segment for each prefix: candidates[begins[i]:begins[i] + lengths[i]], sorted; intersecting shortens `lengths` in place.

Each kernel is compiled once for a machine, on its first call, and then read from numba's cache on disk.
"""
