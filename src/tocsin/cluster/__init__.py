"""The data cluster's service: statements, publishing, subscriptions, fetching, notices."""
