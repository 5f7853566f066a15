"""The vocabulary: what a query says, what a plan does, what is known about the data. Frozen values that print themselves."""
