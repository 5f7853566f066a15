"""Compiled loops over arrays, and the only package that imports numba. Kernels know no relations, attributes or plans.

Three things recur in their arguments:

- A *list* is a stretch of `values`, sorted codes, found by its node: values[offsets[node]:offsets[node + 1]]. Node -1 stands
  for a key that has no list.
- *Bounds* (lower, upper) cut each list to the codes c with lower[i] <= c < upper[i]; an empty array means no bound.
- *Candidates* are one sorted segment per prefix, candidates[begins[i]:begins[i] + lengths[i]]. Intersecting shortens `lengths`
  in place.

`jit.py` compiles a kernel on its first call and keeps the machine code on disk. `generated.py` is the one entry for kernels
whose source is written at run time.
"""
