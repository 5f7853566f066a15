"""Gather: look up the values of codes in one pass. NumPy would first make 64-bit copies of the codes."""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def gather(values, codes, out):
    """Set out[i] to the value of codes[i]."""
    for i in range(len(codes)):
        out[i] = values[codes[i]]
