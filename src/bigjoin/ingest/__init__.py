"""Ingest: from tables to an index, in stages that are pure functions from files to files."""
