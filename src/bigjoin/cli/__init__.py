"""The command line: one file a command; each parses, calls the API, and prints. Results on stdout, all else on stderr."""
