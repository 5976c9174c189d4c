"""A broker's result caches under a workload of subscribers (BAD)."""
