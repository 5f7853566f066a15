"""Flatten: turn prefixes and their segments of candidates into longer prefixes."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def flatten_extensions(prefixes, candidates, begins, lengths, extended):
    """Fill `extended`, one row longer than `prefixes`: each prefix repeated for each of its candidates, in order."""
    width = len(prefixes)
    for row in range(width):
        filled = 0
        for i in range(len(begins)):
            code = prefixes[row, i]
            for _ in range(lengths[i]):
                extended[row, filled] = code
                filled += 1
    filled = 0
    for i in range(len(begins)):
        begin = begins[i]
        for k in range(begin, begin + lengths[i]):
            extended[width, filled] = candidates[k]
            filled += 1
