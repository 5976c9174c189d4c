"""What may break in a world with the real cluster: kinds of faults, of which some are drawn for
each seed, and what they do."""

FAULTS = ("crash", "power", "disk", "network", "clock", "spark", "brokers", "rot", "restore")
HAPPENS = (
    "crash",
    "crash in the middle",
    "crash at a commit",
    "power cut",
    "lost write",
    "torn write",
    "lost sector",
    "flipped bit",
    "full disk",
    "full store",
    "failed sync",
    "slow sync",
    "restored store",
    "clock step",
    "Spark gone",
    "overlong query",
    "broker crash",
    "one-way partition",
    "two-way partition",
    "lost notice",
    "late notice",
    "repeated notice",
    "repeated request",
    "repeated frame",
)
"""What the faults do, by the names under which it is counted."""
