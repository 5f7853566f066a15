"""Pictures, as SVG and HTML without scripts: patterns, plans, matches, bars. They read in light and in dark surroundings."""
