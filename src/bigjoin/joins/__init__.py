"""The algorithm: extend prefixes by one attribute after another, on blocks, without knowing where that happens.

The folder is not called `join`, because `bigjoin.join` is a public function.
"""
