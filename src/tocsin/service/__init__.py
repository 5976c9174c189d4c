"""What every service shares: tokens, signed notices, routes, logs, serving. No domain knowledge."""
