"""Propose: copy the chosen stretch of the shortest list of each prefix into its segment of the candidates."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import extension_list


@kernel
def propose_extensions(offsets, values, nodes, lower, upper, extender, proposers, starts, candidates, begins, lengths):
    """Write the extensions number starts[i] and on, lengths[i] of them, of every prefix for which `extender` proposes."""
    for i in range(len(nodes)):
        if proposers[i] == extender:
            start, _ = extension_list(offsets, values, nodes, lower, upper, i)
            start += starts[i]
            begin = begins[i]
            for k in range(lengths[i]):
                candidates[begin + k] = values[start + k]
