"""Extension indices: sorted tries over dense codes, the dictionary that brings ids back, and the directory that holds both."""
