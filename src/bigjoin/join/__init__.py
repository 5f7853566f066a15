"""The algorithm: extend prefixes by one attribute after another, on blocks, without knowing where that happens."""
