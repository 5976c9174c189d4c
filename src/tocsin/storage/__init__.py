"""Everything durable: the publication log, the catalog, subscriptions, markers and results."""
