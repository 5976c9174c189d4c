"""Every speed claim of Tocsin as a ratio: the claim and its baseline, measured in one run."""
