"""Records on their way in: read, checked against their dataset, encoded as the log keeps them.

The cluster and its gateways share all of this, so that a record that is in the log always fits,
whichever door it came through. Knows no log and no store.
"""
