"""Where the whole index is at hand: what a task counts, lists, groups and picks, and the strategy whose tasks are threads."""
