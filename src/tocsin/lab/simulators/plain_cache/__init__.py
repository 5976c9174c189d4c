"""A plain cache under a trace of requests, as the rest of the world simulates them."""
