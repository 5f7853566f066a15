"""The command line: one file per command, which parses, calls the API and prints. Results go to stdout, all else to stderr."""
