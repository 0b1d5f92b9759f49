"""How fast: measured as ratios within one run, because machines differ and are noisy."""
