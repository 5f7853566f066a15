"""Lines of results -> tables, plots and a page, and nothing but the lines."""
