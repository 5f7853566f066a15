"""One adapter a peer: its library is imported, and its session started, when the adapter is made."""
