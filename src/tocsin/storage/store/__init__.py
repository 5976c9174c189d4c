"""The store: catalog, subscriptions, markers, runs and results, on SQLAlchemy."""
