"""Updates -> epochs -> signed matches, and the ledger that makes it exactly once."""
