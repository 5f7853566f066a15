"""Prefixes of strings: what all strings begin with, and the next eight bytes as numbers that sort like the text.

String i is content[starts[i]:starts[i + 1]].
"""

from __future__ import annotations

from bigjoin.kernels.jit import kernel


@kernel
def common_prefix(starts, content):
    """Return the length of the longest common prefix; there is at least one string."""
    first = starts[0]
    common = starts[1] - first
    for i in range(1, len(starts) - 1):
        at = starts[i]
        common = min(common, starts[i + 1] - at)
        k = 0
        while k < common and content[at + k] == content[first + k]:
            k += 1
        common = k
    return common


@kernel
def following_bytes(starts, content, common, keys):
    """Set keys[i] to the eight bytes of string i after the common ones, padded with zeros, the first one most significant.

    Return whether keys can stand for the strings: no string is longer, and none of its bytes is zero.
    """
    whole = True
    for i in range(len(keys)):
        at = starts[i] + common
        stop = min(at + 8, starts[i + 1])
        whole = whole and stop == starts[i + 1]
        key = keys[i] & 0  # a zero of the type of the keys
        for k in range(at, at + 8):
            byte = content[k] if k < stop else 0
            whole = whole and (byte != 0 or k >= stop)
            key = key * 256 + byte
        keys[i] = key
    return whole
