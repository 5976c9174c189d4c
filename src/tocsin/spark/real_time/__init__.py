"""Continuous channels in Spark's real-time mode: milliseconds instead of micro-batches.

All such channels of a dataset share a query: one scan of its topic, one parse, one join with the
parameter sets of them all, into the topic of matches. `members` says what a channel is in such a
query, `shared` writes the query's text, `sharing` who shares with whom and when a query begins
anew, `culprits` finds whose fault a failure is (all pure); `joining` and `streaming` let Spark run
it, `queries` looks after all queries, and `channels` is what the engine knows of this. `newcomers`
are subscriptions that no query looks at yet.
"""
